"""ZooKeeper is away for longer than any call to it waits, and meanwhile a bookie is lost: no ledger can be changed and
none can be made, so publishing waits. When ZooKeeper is back, it goes on, and nothing is lost."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.publisher import Publisher, read_all
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

CALL_SECONDS = 5
AWAY_SECONDS = 4 * CALL_SECONDS
"""The time stands for minutes: every call to ZooKeeper has failed several times over."""

SETTINGS = {f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")} | {
    "metadataStoreOperationTimeoutSeconds": str(CALL_SECONDS),
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=3, brokers=1, settings=SETTINGS) as made:
        yield made


def test_publishing_waits_and_goes_on(cluster: Cluster, make_client: ClientFactory, topic: str) -> None:
    client = make_client(cluster.service_url)
    publishers = [Publisher(client, f"{topic}-{number}") for number in range(4)]
    try:
        for each in publishers:
            wait_until(lambda: len(each.receipts) > 20, "it publishes")  # noqa: B023
        cluster.zookeeper.pause()
        cluster.bookies[0].kill()
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + AWAY_SECONDS, "ZooKeeper was away for long", 120)
        cluster.zookeeper.resume()
        for each in publishers:
            resumed = len(each.receipts)
            wait_until(lambda: len(each.receipts) > resumed + 20, "it publishes again", 60)  # noqa: B023
    finally:
        cluster.zookeeper.resume()
        for each in publishers:
            each.end()
    assert not [each.faults for each in publishers if each.faults]
    for number, each in enumerate(publishers):
        read_all(client, f"{topic}-{number}", [each])
