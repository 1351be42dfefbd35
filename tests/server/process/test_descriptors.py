"""Connections never take the last file descriptors. When few are left, open connections go on, new ones are refused,
and later ones are accepted again."""

import contextlib
import logging
import resource
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.products import Magnetar
from magnetar.server.process import descriptors
from magnetar.server.process.descriptors import SECONDS_BETWEEN_WARNINGS, Descriptors, raise_limit

LIMIT = 200
CONNECTIONS = 2 * LIMIT
SMALL_LIMIT = ("sh", "-c", f'ulimit -n {LIMIT}; exec "$0" "$@"', sys.executable)


def is_refused(connection: socket.socket) -> bool:
    """Returns whether the server closed the connection. A server sends nothing to a client that has sent nothing, so
    only a close can be read."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def any_refused(connections: Sequence[socket.socket]) -> bool:
    return any(map(is_refused, connections))


@pytest.mark.process
def test_a_server_out_of_descriptors_serves_who_is_there_and_recovers(tmp_path: Path) -> None:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(tmp_path / "client.log"))
    settings = {"managedLedgerMaxEntriesPerLedger": "10", "managedLedgerMinLedgerRolloverTimeMinutes": "0"}
    with Server(tmp_path, product=Magnetar(SMALL_LIMIT), settings=settings) as server:
        client = pulsar.Client(server.broker_url, logger=logger)
        producer = client.create_producer("before")
        consumer = client.subscribe("before", "s")
        with contextlib.ExitStack() as held:
            for port in (server.broker_port, server.address.web_port):
                opened = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(CONNECTIONS)]
                for each in opened:
                    held.enter_context(each)
                wait_until(partial(any_refused, opened), "a connection is refused")
            for number in range(30):
                producer.send(b"%d" % number)
            assert [consumer.receive(timeout_millis=60_000).data() for _ in range(30)] == [b"%d" % n for n in range(30)]
        assert server.log_text().count("out of file descriptors") == 1
        client.close()

        later = pulsar.Client(server.broker_url, logger=logger)
        later.create_producer("after").send(b"recovered")
        later.close()
        server.assert_no_errors()


def test_the_warning_comes_once_a_minute(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    watched = Descriptors(lambda: clock[0])
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(descriptors, "_next_free", lambda: limit - 2)
    with caplog.at_level(logging.WARNING):
        assert [watched.has_room() for _ in range(3)] == [False] * 3
        assert len(caplog.records) == 1
        clock[0] += SECONDS_BETWEEN_WARNINGS
        assert not watched.has_room()
        assert "4 connections refused" in caplog.records[-1].getMessage()
        monkeypatch.setattr(descriptors, "_next_free", lambda: 10)
        assert watched.has_room()
    assert len(caplog.records) == 2


def test_between_two_looks_connections_take_a_small_share_of_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = 0
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_000, 1_000))
    monkeypatch.setattr(descriptors, "_next_free", lambda: opened)
    watched = Descriptors()
    while watched.has_room():
        opened += 1
    limit = 1_000 - descriptors.RESERVE_MAX
    assert limit <= opened <= limit + descriptors.RESERVE_MAX // descriptors.RESERVE_UNSEEN_SHARE
    assert not watched.has_room()


def test_the_limit_is_raised_to_what_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    for limits, wanted in (
        ((1_024, 4_096), [(4_096, 4_096)]),
        ((4_096, 4_096), []),
        ((1_024, resource.RLIM_INFINITY), [(descriptors.WANTED_MAX, resource.RLIM_INFINITY)]),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        set_to.clear()
        raise_limit()
        assert set_to == wanted
