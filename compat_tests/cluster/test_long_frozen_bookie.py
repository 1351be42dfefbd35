"""A bookie is frozen under a broker whose every message needs it: the broker goes on without it long before the
deadline of an add, and the bookie is used again when it wakes up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.publisher import Publisher, read_all
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

EVERY_COPY = {f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}
NEVER = {"bookkeeperClientTimeoutInSeconds": "3600"}
"""A broker that waits for this deadline fails the test."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=3, brokers=1, settings=EVERY_COPY | NEVER) as made:
        yield made


def test_publishing_and_reading_go_on_without_it(cluster: Cluster, make_client: ClientFactory, topic: str) -> None:
    client = make_client(cluster.service_url)
    publisher = Publisher(client, topic)
    try:
        wait_until(lambda: len(publisher.receipts) > 50, "it publishes")
        for bookie in cluster.bookies:  # one of the first two is of the ensemble, and so is one of the last two
            bookie.pause()
            frozen = len(publisher.receipts)
            wait_until(lambda: len(publisher.receipts) > frozen + 50, "it publishes without the bookie", 60)  # noqa: B023
            bookie.resume()
            wait_until(lambda: "registered" in bookie.log_text(), "it is back", 60)  # noqa: B023
    finally:
        for bookie in cluster.bookies:
            bookie.resume()
        publisher.end()
    assert not publisher.faults
    read_all(client, topic, [publisher])
