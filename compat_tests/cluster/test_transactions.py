"""Transactions in a cluster: a coordinator whose broker was killed goes on at another broker, although no client asks
for it."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.moves import owner_url
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until
from compat_tests.java.java_client import JavaClient
from compat_tests.maven_jars import need_java

pytestmark = pytest.mark.slow

ASSIGN = "pulsar/system/transaction_coordinator_assign-partition-"
SETTINGS = {
    "transactionCoordinatorEnabled": "true",
    **{f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")},
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=2, brokers=2, settings=SETTINGS) as made:
        yield made


def timed_out(broker: BrokerSeat, coordinator: str) -> bool:
    """Returns whether a coordinator that the broker runs has had one transaction time out. Nothing is looked up."""
    with urllib.request.urlopen(f"{broker.web_url}/metrics/", timeout=30) as answer:
        page: str = answer.read().decode()
    return re.search(rf'pulsar_txn_timeout_total{{.*coordinator_id="{coordinator}"}} 1\b', page) is not None


def test_a_transaction_times_out_although_its_coordinators_broker_was_killed_and_nobody_asks(
    cluster: Cluster, tmp_path: Path
) -> None:
    need_java()
    java = JavaClient("Transactions.java", cluster.service_url, tmp_path)
    assert java.answer() == "ready"
    begun = re.fullmatch(r"\((\d+),\d+\)", java.ask("begin a 30000"))
    assert begun is not None
    url = owner_url(cluster.brokers[0], f"{ASSIGN}{begun[1]}")
    java.close()
    owner = next(each for each in cluster.brokers if each.web_url == url)
    left = next(each for each in cluster.brokers if each is not owner)
    owner.kill()
    wait_until(lambda: timed_out(left, begun[1]), "the transaction has timed out", 120)
