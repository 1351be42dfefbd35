"""On a full disk, producing gets an error and consuming goes on; producing works again when there is space."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pulsar
import pytest

from compat_tests import wire
from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import wait_until
from compat_tests.python.support import (
    SEND_TIMEOUT_MS,
    bodies,
    can_send,
    incompressible,
    read_bodies,
    receive_bodies,
    send_all,
)
from compat_tests.small_disk import SmallDisk, small_disk

MEGABYTE = 1 << 20
DISK_MB = 128
FILLER_MB = 72
REFUSAL_SECONDS = 10.0
RECOVERY_SECONDS = 60.0
REASONS = ("disk", "space", "read-only", "readonly", "storage")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mounts a file system of `DISK_MB` megabytes for this test."""
    with small_disk(tmp_path / "disk", DISK_MB) as mounted:
        yield mounted


@pytest.mark.slow
def test_a_full_disk_stops_producing_only_and_only_while_it_is_full(
    disk: SmallDisk, make_server: ServerFactory, make_client: ClientFactory, topic: str, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("the peer's process ends (NOTES.md)")
    server = make_server(data_dir=disk.folder / "data")
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "keeps").close()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, send_timeout_millis=SEND_TIMEOUT_MS)
    send_all(producer, bodies(100))
    filler = disk.folder / "filler"
    filler.write_bytes(bytes(FILLER_MB * MEGABYTE))

    receipted = send_until_refused(producer)
    assert server.is_running
    assert_refusal_says_why(server.broker_port, topic)
    assert receive_bodies(consumer, 100 + len(receipted)) == bodies(100) + receipted

    filler.unlink()
    wait_until(lambda: can_send(client, f"{topic}-2"), "producing works again", RECOVERY_SECONDS)
    wait_until(lambda: can_send(client, topic), "producing to the same topic works again", RECOVERY_SECONDS)
    server.kill()
    server.start()
    reader = make_client(server.broker_url).create_reader(topic, pulsar.MessageId.earliest)
    stored = [reader.read_next(60_000).data() for _ in range(100 + len(receipted))]
    assert stored == bodies(100) + receipted


@pytest.mark.slow
def test_a_server_that_is_started_on_a_full_disk_serves_reads_until_there_is_room(
    disk: SmallDisk, make_server: ServerFactory, make_client: ClientFactory, topic: str, is_peer: bool, is_cluster: bool
) -> None:
    if is_peer:
        pytest.skip("the peer does not start (NOTES.md)")
    if is_cluster:
        pytest.skip("the reserves of four processes are a tenth of so small a disk: test_supervised_full_disk.py")
    server = make_server(data_dir=disk.folder / "data")
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "keeps").close()
    send_all(client.create_producer(topic, send_timeout_millis=SEND_TIMEOUT_MS), bodies(100))
    client.close()
    server.kill()
    disk.fill()

    server.start()
    client = make_client(server.broker_url)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_bodies(reader, 100) == bodies(100)
    assert not can_send(client, topic)
    assert_refusal_says_why(server.broker_port, topic, ("the disk is",))
    server.kill()
    server.start()
    client = make_client(server.broker_url)
    assert not can_send(client, topic)

    disk.empty()
    wait_until(lambda: can_send(client, topic), "producing works when there is room", RECOVERY_SECONDS)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_bodies(reader, 101) == [*bodies(100), b"after"]


def send_until_refused(producer: pulsar.Producer) -> list[bytes]:
    """Fills the disk and returns the bodies that got a receipt."""
    receipted: list[bytes] = []
    for index in range(2 * DISK_MB):
        body = incompressible(MEGABYTE // 2, index)
        try:
            producer.send(body)
        except pulsar.PulsarException:
            return receipted
        receipted.append(body)
    raise AssertionError(f"{len(receipted) // 2} MB fitted on a disk of {DISK_MB} MB: {shutil.disk_usage('/tmp')}")


def assert_refusal_says_why(port: int, topic: str, reasons_wanted: Sequence[str] = REASONS) -> None:
    """A producer that connects, or a message that is sent, while the disk is full gets the reason."""
    reasons: list[str] = []

    def refused() -> bool:
        with contextlib.suppress(wire.ClosedError, TimeoutError), wire.WireClient(port) as client:
            client.send(wire.PRODUCER, [(1, topic), (2, 1), (3, 1)])
            kind, message, _ = client.receive(REFUSAL_SECONDS)
            if kind == wire.PRODUCER_SUCCESS:
                client.socket.sendall(wire.send_frame(1, 0, bytes(MEGABYTE // 2)))
                kind, message, _ = client.receive(REFUSAL_SECONDS)
            if kind in (wire.ERROR, wire.SEND_ERROR):
                reasons.append(wire.text(message, 3 if kind == wire.ERROR else 4).lower())
        return any(word in reason for reason in reasons for word in reasons_wanted)

    try:
        wait_until(refused, "a refusal")
    except TimeoutError:
        raise AssertionError(f"no refusal names the disk: {reasons}") from None
