"""A bookie is killed and started again on a full disk: it serves reads, and takes writes when there is room. Only root
may mount the small disk."""

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until
from compat_tests.python.support import SEND_TIMEOUT_MS, bodies, can_send, read_bodies, send_all
from compat_tests.small_disk import SmallDisk, small_disk

DISK_MEBIBYTES = 96
BOOKIE = {"diskCheckInterval": "500"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_MEBIBYTES) as mounted:
        yield mounted


@pytest.fixture
def cluster(tmp_path: Path, disk: SmallDisk) -> Iterator[Cluster]:
    made = Cluster(tmp_path, bookies=1, brokers=1, bookie_keys=BOOKIE)
    small = made.bookies[0].settings
    small["journalDirectories"], small["ledgerDirectories"] = str(disk.folder / "journal"), str(disk.folder / "ledgers")
    with made:
        yield made


def test_reads_are_served_and_writes_wait_for_room(
    cluster: Cluster, disk: SmallDisk, make_client: ClientFactory, topic: str
) -> None:
    client = make_client(cluster.service_url)
    client.subscribe(topic, "keeps").close()
    producer = client.create_producer(topic, send_timeout_millis=SEND_TIMEOUT_MS)
    send_all(producer, bodies(100))
    producer.close()
    bookie = cluster.bookies[0]
    bookie.kill()
    disk.fill()
    seen = bookie.log_size()
    bookie.start()
    assert "bookie is read-only, was writable: the disk is" in bookie.log_text(seen)

    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_bodies(reader, 100) == bodies(100)
    assert not can_send(client, topic)

    disk.empty()
    wait_until(lambda: can_send(client, topic), "producing works when there is room", 60)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_bodies(reader, 101) == [*bodies(100), b"after"]
