"""`magnetar cluster` on a full disk serves reads and refuses writes, also after its processes were started again."""

import os
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.supervised import SupervisedCluster
from compat_tests.conftest import ClientFactory
from compat_tests.harness import ServerFailedError, wait_until
from compat_tests.python.support import SEND_TIMEOUT_MS, bodies, can_send, read_bodies, send_all
from compat_tests.small_disk import SmallDisk, small_disk

DISK_MEBIBYTES = 512
SETTINGS = {"diskUsageThreshold": "0.95"}
"""The default, which other tests raise: the room that starts give up does not make the bookies writable."""
OPERATION_SECONDS = 5


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "data", DISK_MEBIBYTES) as mounted:
        yield mounted


@pytest.fixture
def cluster(tmp_path: Path, disk: SmallDisk) -> Iterator[SupervisedCluster]:
    with SupervisedCluster(tmp_path, brokers=1, bookies=2, settings=SETTINGS) as made:
        yield made


def read(client: pulsar.Client, topic: str, count: int) -> list[bytes]:
    return read_bodies(client.create_reader(topic, pulsar.MessageId.earliest), count)


def await_readable(client: pulsar.Client, topic: str) -> None:
    """Returns when a reader can be made. The client of Pulsar 4.2 does not always ask again when the broker could not
    load the topic at first."""

    def is_readable() -> bool:
        try:
            client.create_reader(topic, pulsar.MessageId.earliest).close()
        except pulsar.PulsarException:
            return False
        return True

    wait_until(is_readable, "the topic is readable")


def has_reserves(disk: SmallDisk) -> bool:
    """Returns whether the metadata server and both bookies have room in reserve."""
    return sum(path.stat().st_size > 0 for path in disk.folder.rglob("RESERVE")) == 3


def test_reads_are_served_and_writes_wait_for_room(
    cluster: SupervisedCluster, disk: SmallDisk, make_client: ClientFactory, topic: str
) -> None:
    client = make_client(cluster.service_url)
    client.subscribe(topic, "keeps").close()
    producer = client.create_producer(topic, send_timeout_millis=SEND_TIMEOUT_MS)
    send_all(producer, bodies(100))
    wait_until(lambda: has_reserves(disk), "all have a reserve")
    disk.fill()
    wait_until(lambda: cluster.log_text().count("is registered as read-only") == 2, "both bookies are read-only")
    cluster.kill_child("brokers")  # The next one needs a session, which is a record that has to be written.
    client = make_client(cluster.service_url, operation_timeout_seconds=OPERATION_SECONDS)
    await_readable(client, topic)
    assert read(client, topic, 100) == bodies(100)
    assert not can_send(client, topic)
    for _ in range(2):
        cluster.kill()
        cluster.start()
        client = make_client(cluster.service_url, operation_timeout_seconds=OPERATION_SECONDS)
        await_readable(client, topic)
        assert read(client, topic, 100) == bodies(100)
        assert not can_send(client, topic)
    disk.empty()
    wait_until(lambda: can_send(client, topic), "producing works when there is room", 60)
    assert read(client, topic, 101) == [*bodies(100), b"after"]
    wait_until(lambda: has_reserves(disk), "all have a reserve again")
    cluster.await_return("brokers", 0)


def test_a_start_without_any_room_says_that_the_disk_is_full(cluster: SupervisedCluster, disk: SmallDisk) -> None:
    cluster.stop()
    for reserve in disk.folder.rglob("RESERVE"):
        os.truncate(reserve, 0)
    disk.fill()
    with pytest.raises(ServerFailedError, match="is full, 0 KB are free"):
        cluster.start(timeout_seconds=60)
