"""Starting and stopping: ports open last, a folder and a port have one server at most, and a stop ends in time under
any load."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests import wire
from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import POLL_SECONDS, Server, free_port, wait_until
from compat_tests.products import interpreter
from compat_tests.python.support import bodies, receive_bodies, send_all

STOP_SECONDS = 10.0
"""Less than any timeout that a stop could run into. The bench says how fast a stop is."""
WAIT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _only_magnetar(is_peer: bool) -> None:
    if is_peer:
        pytest.skip("the peer starts and stops in its own way (NOTES.md)")


def test_a_produce_and_a_consume_succeed_as_soon_as_the_port_opens(
    make_server: ServerFactory, topic: str, is_cluster: bool
) -> None:
    if is_cluster:
        pytest.skip("the topic may belong to another broker than the one whose port opened")
    server = make_server()
    port = free_port()
    server.spawn((port, free_port()))
    with first_connection(port) as client:
        client.subscribe(topic, "s")
        client.open_producer(topic)
        client.send(wire.FLOW, [(1, 1), (2, 1)])
        client.socket.sendall(wire.send_frame(1, 0, b"first"))
        kinds = {client.receive()[0] for _ in range(2)}
    assert kinds == {wire.SEND_RECEIPT, wire.MESSAGE}


def first_connection(port: int) -> wire.WireClient:
    """Returns the first connection that a starting server accepts. Connections before that are refused, and get no
    answer at all."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return wire.WireClient(port)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "the port never opened"
            time.sleep(POLL_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_idle_server_stops_in_time(own_server: Server, number: signal.Signals) -> None:
    began = time.monotonic()
    os.kill(own_server.pid, number)
    assert own_server.wait() == 0
    assert time.monotonic() - began < STOP_SECONDS


def test_a_server_under_load_stops_in_time_and_loses_nothing(
    own_server: Server, topic: str, make_client: ClientFactory
) -> None:
    client = make_client(own_server.broker_url)
    client.subscribe(topic, "s").close()
    with endless_load(client, topic) as receipted:
        wait_until(lambda: len(receipted) > 2000, "load on the server")
        assert own_server.stop() < STOP_SECONDS
        count = len(receipted)
    own_server.start()
    consumer = make_client(own_server.broker_url).subscribe(topic, "s")
    assert receive_bodies(consumer, count) == receipted[:count]


@contextlib.contextmanager
def endless_load(client: pulsar.Client, topic: str) -> Iterator[list[bytes]]:
    """Sends until the block ends. The list grows by each body that got a receipt."""
    receipted: list[bytes] = []
    ended = threading.Event()
    producer = client.create_producer(topic, block_if_queue_full=True, send_timeout_millis=0)

    def receipt(body: bytes, result: pulsar.Result) -> None:
        if result == pulsar.Result.Ok:
            receipted.append(body)

    def send() -> None:
        index = 0
        with contextlib.suppress(pulsar.PulsarException):
            while not ended.is_set():
                body = b"%d" % index
                producer.send_async(body, lambda result, _, body=body: receipt(body, result))
                index += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield receipted
    finally:
        ended.set()
        client.close()
        thread.join(WAIT_SECONDS)


def test_a_server_that_is_still_starting_stops_in_time(make_server: ServerFactory) -> None:
    server = make_server()
    for delay_ms in (200, 300, 400):
        server.spawn()
        time.sleep(delay_ms / 1000)
        began = time.monotonic()
        server.terminate()
        assert server.wait() in (0, -signal.SIGTERM)
        assert time.monotonic() - began < STOP_SECONDS
    server.start()


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns (size, modification time in ns) of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def run_second(data_dir: Path, broker_port: int = 0, web_port: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*interpreter(), "-m", "magnetar", "standalone", "--data-dir", str(data_dir), "--ready-json"]
    command += ["--broker-port", str(broker_port), "--web-port", str(web_port)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def test_a_second_server_on_the_same_folder_says_who_has_it(
    own_server: Server, topic: str, make_client: ClientFactory, is_cluster: bool
) -> None:
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), bodies(10))
    assert receive_bodies(consumer, 10) == bodies(10)
    if not is_cluster:  # The brokers of a cluster write their load reports at any time.
        wait_for_quiet(own_server.data_dir)
    before = snapshot(own_server.data_dir)
    second = run_second(own_server.data_dir)
    assert is_cluster or snapshot(own_server.data_dir) == before
    assert_refused(second, str(own_server.data_dir), own_server.pid)
    client.create_producer(topic).send(b"still here")
    assert receive_bodies(consumer, 1) == [b"still here"]


def wait_for_quiet(folder: Path) -> None:
    """Waits until the server has written nothing for a while: acknowledgements are flushed within a second, checkpoints
    come a bit later."""
    states = [snapshot(folder)]

    def quiet() -> bool:
        time.sleep(2.5)
        states.append(snapshot(folder))
        return states[-1] == states[-2]

    wait_until(quiet, "the data folder comes to rest")


@pytest.mark.parametrize("which", ["broker", "web"])
def test_a_second_server_on_the_same_port_says_who_has_it(own_server: Server, tmp_path: Path, which: str) -> None:
    port = own_server.broker_port if which == "broker" else own_server.address.web_port
    folder = tmp_path / "second"
    second = run_second(folder, **{f"{which}_port": port})
    assert_refused(second, str(port), own_server.address.broker_pid or own_server.pid)
    assert not folder.exists() or snapshot(folder) == {}


def assert_refused(second: subprocess.CompletedProcess[str], what: str, pid: int) -> None:
    assert second.returncode == 1
    assert second.stdout == ""
    sentences = [line for line in second.stderr.splitlines() if line.startswith("magnetar:")]
    assert len(sentences) == 1, second.stderr
    assert what in sentences[0]
    assert str(pid) in sentences[0]
    assert "Traceback" not in second.stderr


def test_a_port_in_use_by_something_else_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        second = run_second(tmp_path / "data", broker_port=port)
    assert_refused(second, str(port), os.getpid())


def test_the_folder_is_free_again_after_a_kill(own_server: Server) -> None:
    for _ in range(3):
        own_server.kill()
        own_server.start()
