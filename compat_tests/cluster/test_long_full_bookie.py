"""The disk of one bookie fills up under a broker that needs every copy: the broker goes on with the others, and the
bookie takes writes again when there is room. Only root may mount the small disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.publisher import Publisher, read_all
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until
from compat_tests.small_disk import SmallDisk, small_disk

DISK_MEBIBYTES = 96
SETTINGS = {f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}
BOOKIE = {"diskUsageThreshold": "0.95", "diskCheckInterval": "500"}
TOPICS = 4


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_MEBIBYTES) as mounted:
        yield mounted


@pytest.fixture
def cluster(tmp_path: Path, disk: SmallDisk) -> Iterator[Cluster]:
    made = Cluster(tmp_path, bookies=3, brokers=1, settings=SETTINGS, bookie_keys=BOOKIE)
    small = made.bookies[0].settings
    small["journalDirectories"], small["ledgerDirectories"] = str(disk.folder / "journal"), str(disk.folder / "ledgers")
    with made:
        yield made


def test_publishing_goes_on_beside_a_full_disk(
    cluster: Cluster, disk: SmallDisk, make_client: ClientFactory, topic: str
) -> None:
    client = make_client(cluster.service_url)
    publishers = [Publisher(client, f"{topic}-{number}") for number in range(TOPICS)]
    bookie = cluster.bookies[0]
    try:
        for each in publishers:
            wait_until(lambda: len(each.receipts) > 20, "it publishes")  # noqa: B023
        disk.fill()
        wait_until(lambda: "bookie is read-only, was writable" in bookie.log_text(), "the bookie is read-only", 60)
        for each in publishers:
            full = len(each.receipts)
            wait_until(lambda: len(each.receipts) > full + 50, "it publishes beside the full disk", 60)  # noqa: B023
        seen = bookie.log_size()
        disk.empty()
        wait_until(
            lambda: "bookie is writable, was read-only" in bookie.log_text(seen), "the bookie takes writes again", 60
        )
    finally:
        for each in publishers:
            each.end()
    assert bookie.is_running
    assert not [each.faults for each in publishers if each.faults]
    for number, each in enumerate(publishers):
        read_all(client, f"{topic}-{number}", [each])
