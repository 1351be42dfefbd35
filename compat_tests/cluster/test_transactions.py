"""Transactions in a cluster: a coordinator whose broker was killed goes on at another broker, also when no client asks
for it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.test_handover import QUORUMS, owner_of
from compat_tests.conftest import ClientFactory
from compat_tests.java.java_client import JavaClient
from compat_tests.maven_jars import need_java

pytestmark = pytest.mark.slow

ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign-partition-"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {**QUORUMS, "transactionCoordinatorEnabled": "true"}
    with Cluster(tmp_path, bookies=2, brokers=2, settings=settings) as made:
        yield made


def test_a_transaction_times_out_although_its_coordinators_broker_was_killed_and_nobody_asks(
    cluster: Cluster, make_client: ClientFactory, tmp_path: Path
) -> None:
    need_java()
    java = JavaClient("Transactions.java", cluster.service_url, tmp_path)
    assert java.answer() == "ready"
    begun = re.fullmatch(r"\((\d+),\d+\)", java.ask("begin a 30000"))
    assert begun is not None
    assert java.ask("send out a hidden") == "sent"
    assert java.ask("send out - shown") == "sent"
    owner = owner_of(cluster, f"{ASSIGN}{begun[1]}")
    java.close()
    owner.kill()
    consumer = make_client(cluster.service_url).subscribe(
        "persistent://public/default/out", "s", initial_position=pulsar.InitialPosition.Earliest
    )
    assert consumer.receive(120_000).data() == b"shown"
