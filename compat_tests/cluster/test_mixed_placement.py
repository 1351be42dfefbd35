"""One broker of Apache's and one of ours share a cluster's bundles, whoever leads.

Each starts after the other once, each leads once, each dies once; both always say the same about every bundle. Brokers
of either make take bundles that the other one gives them, and split bundles that the other one knows.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from compat_tests.cluster import admin
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat, OurBroker
from compat_tests.harness import wait_until

SETTINGS = {
    "metadataStoreSessionTimeoutMillis": "6000",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
    # The machine that runs a test is often busy with other work: nobody shall be called overloaded for that.
    "loadBalancerBrokerOverloadedThresholdPercentage": "1000",
    "loadBalancerSheddingEnabled": "false",
}
BUNDLES = 8
UNREADABLE = ("Failed to deserialize", "MetadataStoreException$ContentDeserializationException", "JsonMappingException")


class Mixed:
    """The cluster, and what is asked of both brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.java = cluster.add_broker(ApacheBroker)
        self.ours = cluster.add_broker(OurBroker)
        self.both: list[BrokerSeat] = [self.java, self.ours]
        self._namespaces = 0

    def all_know(self, *brokers: BrokerSeat) -> None:
        expected = sorted(each.broker_id for each in brokers)
        wait_until(lambda: all(admin.registered(each, self.cluster.name) == expected for each in brokers), "known", 60)

    def leads(self, expected: BrokerSeat, *asked: BrokerSeat) -> None:
        everybody = asked or self.both
        wait_until(lambda: {admin.leader(each) for each in everybody} == {expected.broker_id}, "who leads", 60)

    def new_namespace(self, by: BrokerSeat) -> str:
        self._namespaces += 1
        name = f"public/n{self._namespaces}"
        admin.call(by, f"/admin/v2/namespaces/{name}", "PUT", {"bundles": {"numBundles": BUNDLES}})
        return name

    def owners(self, namespace: str, *asked: BrokerSeat) -> dict[str, str]:
        """Returns the owner of each bundle, about which all agree."""
        first, *others = asked or self.both
        found = admin.owners(first, namespace)
        wait_until(lambda: all(admin.owners(each, namespace) == found for each in others), "all say the same", 30)
        return found


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    cluster = Cluster(tmp_path, bookies=1, brokers=0, settings=SETTINGS)
    try:
        made = Mixed(cluster)
        cluster.zookeeper.start()
        cluster.initialize()
        for each in cluster.bookies:
            each.start()
        made.java.start()
        made.ours.start()
        yield made
    finally:
        cluster.close()
    cluster.assert_no_errors()


def knows_split(mixed: Mixed, namespace: str, bundle: str) -> bool:
    return not any(bundle in admin.bundles(each, namespace) for each in mixed.both)


def even(owners: dict[str, str]) -> bool:
    return sorted(Counter(owners.values()).values()) == [BUNDLES // 2] * 2


def move(mixed: Mixed, by: BrokerSeat, namespace: str, bundle: str, to: BrokerSeat) -> None:
    """Has a bundle unloaded with a destination, and waits until all say that it is there. A broker answers with the old
    owner until it hears that the lock is gone."""
    path = f"/admin/v2/namespaces/{namespace}/{bundle}/unload?destinationBroker={to.broker_id}"
    admin.call(by, path, "PUT")
    wait_until(lambda: admin.owners(by, namespace)[bundle] == to.web_url, f"{bundle} is at {to.name}", 20)
    assert mixed.owners(namespace)[bundle] == to.web_url


def test_a_broker_of_each_make_share_the_bundles_whoever_leads(mixed: Mixed) -> None:
    java, ours = mixed.java, mixed.ours

    # Ours came last, and Apache's leads.
    mixed.all_know(java, ours)
    mixed.leads(java)
    first = mixed.new_namespace(java)
    owners = mixed.owners(first, java, ours)
    assert even(owners), owners
    for number in range(20):
        found = admin.lookup(java, f"{first}/t{number}")
        assert len(found.asked) == 1, f"an owner that is known is no reason to redirect: {found}"
    second = mixed.new_namespace(ours)
    assert even(mixed.owners(second, ours, java)), "our follower sends lookups to the leader"

    # Bundles go where an operator wants them, asked through either broker.
    bundle = next(bundle for bundle, owner in owners.items() if owner == java.web_url)
    move(mixed, java, first, bundle, ours)
    move(mixed, ours, first, bundle, java)

    # Each splits one, and the other knows it at once.
    for owner in mixed.both:
        name = next(each for each, url in mixed.owners(first).items() if url == owner.web_url)
        other = ours if owner is java else java
        admin.call(other, f"/admin/v2/namespaces/{first}/{name}/split", "PUT")
        wait_until(partial(knows_split, mixed, first, name), "the split is known", 30)
    assert len(mixed.owners(first)) == BUNDLES + 2

    # Apache's is killed: ours leads and owns all.
    java.kill()
    wait_until(lambda: admin.registered(ours, mixed.cluster.name) == [ours.broker_id], "it is gone", 60)
    mixed.leads(ours, ours)
    assert set(mixed.owners(first, ours).values()) == {ours.web_url}

    # Apache's comes back and follows our leader, which spreads for both.
    java.start()
    mixed.all_know(java, ours)
    mixed.leads(ours)
    third = mixed.new_namespace(java)
    assert even(mixed.owners(third, java, ours)), "its lookups are sent to our leader"
    fourth = mixed.new_namespace(ours)
    owners = mixed.owners(fourth, ours, java)
    assert even(owners)
    bundle = next(bundle for bundle, owner in owners.items() if owner == ours.web_url)
    move(mixed, java, fourth, bundle, java)
    move(mixed, ours, fourth, bundle, ours)

    # Ours is stopped in order and comes back as the follower; then it is killed.
    ours.stop()
    wait_until(lambda: admin.registered(java, mixed.cluster.name) == [java.broker_id], "it is gone", 60)
    mixed.leads(java, java)
    assert set(mixed.owners(third, java).values()) == {java.web_url}
    ours.start()
    mixed.all_know(java, ours)
    mixed.leads(java)
    fifth = mixed.new_namespace(ours)
    assert even(mixed.owners(fifth, java, ours))
    ours.kill()
    wait_until(lambda: admin.registered(java, mixed.cluster.name) == [java.broker_id], "it is gone", 60)
    assert set(mixed.owners(fifth, java).values()) == {java.web_url}
    unreadable = [line for line in java.log_text().splitlines() if any(mark in line for mark in UNREADABLE)]
    assert not unreadable
