"""A transaction whose coordinator and topics are at three brokers, so that each of them can be killed in its course."""

import itertools
import re
from typing import NamedTuple

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.moves import bundle_of, owner_url, unload_to
from compat_tests.cluster.seats import BrokerSeat

ASSIGN = "pulsar/system/transaction_coordinator_assign-partition-"
NAMESPACE = "public/default"
TWO_BOOKIES = {
    "transactionCoordinatorEnabled": "true",
    **{f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")},
}
"""The settings of brokers that have transactions and store everything at two bookies."""


class Spread(NamedTuple):
    """The brokers that serve parts of a transaction."""

    coordinator: BrokerSeat
    source: BrokerSeat
    target: BrokerSeat


def names_apart(cluster: Cluster, source: str, target: str) -> tuple[str, str]:
    """Returns names of two topics that begin with these words and are in two bundles, so that two brokers can serve
    them."""
    broker = cluster.brokers[0]
    bundle = bundle_of(broker, f"{NAMESPACE}/{source}")
    names = (f"{target}-{number}" for number in itertools.count())
    return source, next(name for name in names if bundle_of(broker, f"{NAMESPACE}/{name}") != bundle)


def coordinators_broker(cluster: Cluster, transaction: str) -> BrokerSeat:
    """Returns the broker that runs the coordinator of a transaction, whose id is `(coordinator,number)`."""
    found = re.fullmatch(r"\((\d+),\d+\)", transaction)
    assert found is not None, transaction
    url = owner_url(cluster.brokers[0], f"{ASSIGN}{found[1]}")
    return next(each for each in cluster.brokers if each.web_url == url)


def spread(cluster: Cluster, transaction: str, source: str, target: str) -> Spread:
    """Has the topics moved to the two brokers that do not run the transaction's coordinator."""
    coordinator = coordinators_broker(cluster, transaction)
    first, second = (each for each in cluster.brokers if each is not coordinator)
    unload_to(f"{NAMESPACE}/{source}", first)
    unload_to(f"{NAMESPACE}/{target}", second)
    return Spread(coordinator, first, second)
