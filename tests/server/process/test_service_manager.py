"""A service manager hears over its datagram socket when the server is ready and when it stops (sd_notify(3))."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness import WAIT_SECONDS, Server
from magnetar.server.process.service_manager import READY, SOCKET_VARIABLE, STOPPING, notify_service_manager
from magnetar.server.process.supervision import SUPERVISOR_VARIABLE


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager, which the environment names."""
    path = tmp_path / "notify"
    monkeypatch.setenv(SOCKET_VARIABLE, str(path))
    monkeypatch.delenv(SUPERVISOR_VARIABLE, raising=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(WAIT_SECONDS)
        yield sock


def heard(manager: socket.socket) -> str:
    return manager.recv(4096).decode()


def waiting(manager: socket.socket) -> str | None:
    """Returns what was sent and not read, or None."""
    manager.setblocking(False)
    try:
        return heard(manager)
    except BlockingIOError:
        return None


def test_a_state_reaches_the_socket_that_the_environment_names(manager: socket.socket) -> None:
    notify_service_manager(READY)
    assert heard(manager) == "READY=1"


def test_a_path_that_begins_with_an_at_sign_is_an_abstract_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, f"@{tmp_path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{tmp_path}")
        sock.settimeout(WAIT_SECONDS)
        notify_service_manager(STOPPING)
        assert heard(sock) == "STOPPING=1"


def test_a_process_that_a_supervisor_started_says_nothing(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SUPERVISOR_VARIABLE, "1")
    notify_service_manager(READY)
    assert waiting(manager) is None


def test_a_service_manager_that_is_gone_is_told_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "nobody"))
    with caplog.at_level(logging.WARNING):
        notify_service_manager(READY)
    assert f"the service manager at {tmp_path}/nobody was not told READY=1: No such file or directory" in caplog.text


@pytest.mark.process
def test_a_server_is_ready_for_its_service_manager_only_when_clients_are_served(
    tmp_path: Path, manager: socket.socket
) -> None:
    with Server(tmp_path / "server") as server:
        assert heard(manager) == "READY=1"
        with socket.create_connection(("127.0.0.1", server.broker_port), timeout=WAIT_SECONDS):
            pass
        server.terminate()
        assert heard(manager) == "STOPPING=1"


@pytest.mark.process
def test_a_start_that_fails_never_says_that_it_is_ready(tmp_path: Path, manager: socket.socket) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("no folder")
    with pytest.raises(AssertionError, match="a-file"):
        Server(tmp_path / "server", data_dir=blocked).start()
    assert heard(manager) == "STOPPING=1"
    assert waiting(manager) is None
