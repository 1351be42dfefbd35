"""Transactions in a cluster of three brokers: they go on after a SIGKILL of the broker that runs their coordinator, and
of the brokers that serve their topics."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.cluster.spread_transaction import TWO_BOOKIES, Spread, coordinators_broker, names_apart, spread
from compat_tests.harness import wait_until
from compat_tests.java.java_client import JavaClient
from compat_tests.maven_jars import need_java

pytestmark = pytest.mark.slow

LONG_MS = 600_000


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_java()
    with Cluster(tmp_path_factory.mktemp("cluster"), bookies=2, brokers=3, settings=TWO_BOOKIES) as made:
        yield made


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """Yields the cluster. Afterwards the brokers that a test killed are started again."""
    yield running_cluster
    for broker in running_cluster.brokers:
        if not broker.is_running:
            broker.start()


@pytest.fixture
def java(cluster: Cluster, tmp_path: Path) -> Iterator[JavaClient]:
    made = JavaClient("Transactions.java", cluster.service_url, tmp_path)
    assert made.answer() == "ready"
    yield made
    made.close()


def timed_out(broker: BrokerSeat, coordinator: str) -> bool:
    """Returns whether a coordinator that the broker runs has had one transaction time out. Nothing is looked up."""
    with urllib.request.urlopen(f"{broker.web_url}/metrics/", timeout=30) as answer:
        page: str = answer.read().decode()
    return re.search(rf'pulsar_txn_timeout_total{{.*coordinator_id="{coordinator}"}} 1\b', page) is not None


@pytest.mark.long
def test_a_transaction_times_out_although_its_coordinators_broker_was_killed_and_nobody_asks(
    cluster: Cluster, java: JavaClient
) -> None:
    transaction = java.ask("begin a 30000")
    owner = coordinators_broker(cluster, transaction)
    java.close()
    left = [each for each in cluster.brokers if each is not owner]
    owner.kill()
    number = transaction.strip("()").partition(",")[0]
    wait_until(lambda: any(timed_out(each, number) for each in left), "the transaction has timed out", 120)


@pytest.mark.parametrize(
    "lost", [pytest.param(each, marks=[pytest.mark.long] * (each != "coordinator")) for each in Spread._fields]
)
def test_messages_and_acknowledgements_outlive_each_broker_of_their_transaction(
    cluster: Cluster, java: JavaClient, lost: str
) -> None:
    transaction = java.ask(f"begin a {LONG_MS}")
    java.ask(f"begin b {LONG_MS}")
    source, target = names_apart(cluster, f"in-{lost}", f"out-{lost}")
    brokers = spread(cluster, transaction, source, target)
    assert java.ask(f"send {source} - m1 m2 m3") == "sent"
    assert java.ask(f"send {target} a kept") == "sent"
    assert java.ask(f"send {target} b dropped") == "sent"
    assert java.ask(f"take {source} s Shared a 1") == "[m1/0]"
    assert java.ask(f"take {source} s Shared b 1") == "[m2/0]"
    getattr(brokers, lost).kill()
    assert java.ask("commit a") == "committed"
    assert java.ask("abort b") == "aborted"
    assert java.ask(f"send {target} - behind") == "sent"
    assert java.ask(f"take {target} s Exclusive - 2") == "[behind/0, kept/0]"
    assert java.ask(f"leave {source} s") == "left"
    left = java.ask(f"take {source} s Shared - 2")
    assert [each.partition("/")[0] for each in left.strip("[]").split(", ")] == ["m2", "m3"]
