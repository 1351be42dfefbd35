"""Transactions of Apache's broker go on at ours, and ours at Apache's: coordinators' logs, the transactions of topics
with their snapshots, and pending acknowledgements are read as the other brand has left them at its SIGKILL."""

import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat_tests.cluster import admin
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.moved_features import SETTINGS
from compat_tests.cluster.seats import BrokerSeat, OurBroker
from compat_tests.harness import free_port, wait_until
from compat_tests.java.java_client import JavaClient

pytestmark = pytest.mark.slow

KINDS: dict[str, type[BrokerSeat]] = {"ours": OurBroker, "apaches": ApacheBroker}
APACHES_DEFAULTS = {"transactionCoordinatorEnabled": "true"}
BATCHED = {
    "transactionLogBatchedWriteEnabled": "true",
    "transactionPendingAckBatchedWriteEnabled": "true",
    "transactionBufferSegmentedSnapshotEnabled": "true",
    # A segment of a topic with a short name then holds 10 ids.
    "transactionBufferSnapshotSegmentSize": "70",
}
ABORTED = 12
"""More transactions than a segment holds, when snapshots are written in segments."""
LONG_MS = 3_600_000
BUFFER = "/admin/v3/transactions/transactionBufferStats/public/default/out"


class Brands(NamedTuple):
    cluster: Cluster
    first: BrokerSeat
    second: BrokerSeat

    @property
    def service_url(self) -> str:
        """The addresses of both brokers, of which one runs at a time."""
        ports = (each.settings["brokerServicePort"] for each in (self.first, self.second))
        return "pulsar://" + ",".join(f"127.0.0.1:{port}" for port in ports)


@pytest.fixture(params=["ours", "apaches"])
def brands(request: pytest.FixtureRequest, tmp_path: Path, settings: dict[str, str]) -> Iterator[Brands]:
    """A cluster in which a broker of one brand runs; the seat of the other brand is still empty."""
    first, second = (KINDS[name] for name in (request.param, *(KINDS.keys() - {request.param})))
    keys = {**SETTINGS, **APACHES_DEFAULTS, **settings}
    ports = [{"brokerServicePort": str(free_port()), "webServicePort": str(free_port())} for _ in range(2)]
    made = Cluster(tmp_path, bookies=1, brokers=0, settings=keys, seats=Seats(broker=first))
    made.add_broker(first, **ports[0])
    with made:
        yield Brands(made, made.brokers[0], made.add_broker(second, **ports[1]))


def shown(broker: BrokerSeat) -> dict[str, Any]:
    """Returns the parts of the state of the topic's transactions that the next broker has to find again."""
    answer = admin.call(broker, BUFFER)
    return {key: answer[key] for key in ("state", "maxReadPosition", "ongoingTxnSize", "totalAbortedTransactions")}


@pytest.mark.parametrize("settings", [{}, BATCHED], ids=["single", "batched"])
def test_open_and_ended_transactions_go_on_at_a_broker_of_the_other_brand(brands: Brands, tmp_path: Path) -> None:
    java = JavaClient("Transactions.java", brands.service_url, tmp_path)
    assert java.answer() == "ready"
    for name in ("begin a 60000", "begin c 3600000", "begin d 3600000"):
        assert java.ask(name).startswith("(")
    assert java.ask("send out a committed") == "sent"
    assert java.ask("commit a") == "committed"
    for number in range(ABORTED):
        assert java.ask(f"begin b{number} 60000").startswith("(")
        assert java.ask(f"send out b{number} aborted") == "sent"
        assert java.ask(f"abort b{number}") == "aborted"
    for sent in ("in - m1", "in - m2", "in - m3"):
        assert java.ask(f"send {sent}") == "sent"
    assert java.ask("take in s Shared c 2") == "[m1/0, m2/0]"
    assert java.ask("take in s Shared d 1") == "[m3/0]"
    wait_until(lambda: admin.call(brands.first, BUFFER)["lastSnapshotTimestamps"] > 0, "a snapshot is stored", 30)
    for sent in ("out c kept", "out d dropped", "out - behind"):
        assert java.ask(f"send {sent}") == "sent"
    before = shown(brands.first)
    assert (before["ongoingTxnSize"], before["totalAbortedTransactions"]) == (2, ABORTED)

    brands.first.kill()
    brands.second.start()
    wait_until(lambda: _answers(brands.second), "the topic is served again", 120)
    assert shown(brands.second) == before
    assert java.ask("commit c") == "committed"
    assert java.ask("abort d") == "aborted"
    assert java.ask("take out s Exclusive - 4") == "[behind/0, committed/0, kept/0]"
    left = java.ask("take in s Shared - 2")
    assert left.startswith("[m3/")
    assert "m1" not in left
    assert shown(brands.second)["ongoingTxnSize"] == 0
    assert java.ask("begin e 60000").startswith("(")
    assert java.ask("send out e later") == "sent"
    assert java.ask("commit e") == "committed"
    assert java.ask("take out s Exclusive - 1") == "[later/0]"
    java.close()


def _answers(broker: BrokerSeat) -> bool:
    """Returns whether the broker serves the topic. Bundles of a killed broker are its own until its session ends, and
    Apache's broker answers before it has read the topic."""
    try:
        return bool(admin.call(broker, BUFFER)["state"] != "Initializing")
    except urllib.error.URLError:
        return False
