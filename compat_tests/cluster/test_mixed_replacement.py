"""A cluster of two of Apache's brokers becomes one of two of ours and back, one broker at a time and each in its place,
while Apache's Java client publishes and consumes: over our bookies, and over Apache's.

Nothing is lost and nothing comes out of order. What a broker confirmed as acknowledged comes again only where Apache's
brokers hand over to each other, which forget the acknowledged parts of batches (`compat_tests/NOTES.md`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster import admin
from compat_tests.cluster.apache_seats import ApacheBookie, ApacheBroker
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.java_load import JavaLoad
from compat_tests.cluster.moves import owner_url, unload_to
from compat_tests.cluster.seats import BrokerSeat, OurBookie, OurBroker
from compat_tests.harness import wait_until

NAMESPACE = "public/replaced"
BUNDLES = 8
TOPICS = 4
SEATS = 2
SETTINGS = {
    "loadBalancerSheddingEnabled": "false",
    # The machine that runs a test is often busy with other work: nobody shall be called overloaded for that.
    "loadBalancerBrokerOverloadedThresholdPercentage": "1000",
    "metadataStoreSessionTimeoutMillis": "20000",
}
REGISTERED_SECONDS = 60
APACHES_OWN = ("stop ApacheBroker for ApacheBroker", "unload ApacheBroker for ApacheBroker")
"""Where one of Apache's brokers hands over to the other."""

Place = dict[type[BrokerSeat], BrokerSeat]
"""The brokers that take turns at one address."""


@pytest.fixture(params=[OurBookie, ApacheBookie])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=2, brokers=0, settings=SETTINGS, seats=Seats(bookie=request.param)) as made:
        for _ in range(SEATS):
            made.add_broker(ApacheBroker).start()
        yield made


def place_of(cluster: Cluster, apaches: BrokerSeat) -> Place:
    """Returns a place with the broker of Apache's that runs, and one of ours for the same address."""
    ports = {key: apaches.settings[key] for key in ("brokerServicePort", "webServicePort")}
    return {ApacheBroker: apaches, OurBroker: cluster.add_broker(OurBroker, **ports)}


def replace(cluster: Cluster, load: JavaLoad, place: Place, kind: type[BrokerSeat], left: BrokerSeat) -> None:
    """Stops the broker of a place in order, so that the one that is left takes all; starts one of the other make there,
    and moves half of the topics to it."""
    new = place[kind]
    old = next(each for each in place.values() if each is not new)
    load.phase(f"stop {type(old).__name__} for {type(left).__name__}")
    old.stop()
    wait_until(lambda: topics_at(left) == list(range(TOPICS)), f"{left.name} has all topics", REGISTERED_SECONDS)
    load.phase(f"start {kind.__name__}")
    new.start()
    wait_until(
        lambda: all(len(admin.registered(each, cluster.name)) == SEATS for each in (new, left)),
        "both are registered",
        REGISTERED_SECONDS,
    )
    load.phase(f"unload {type(left).__name__} for {kind.__name__}")
    for number in range(0, TOPICS, 2):
        unload_to(f"{NAMESPACE}/t{number}", new)
    assert topics_at(new)


def topics_at(broker: BrokerSeat) -> list[int]:
    """Returns the numbers of the topics that a broker owns."""
    return [number for number in range(TOPICS) if owner_url(broker, f"{NAMESPACE}/t{number}") == broker.web_url]


def test_two_of_apaches_brokers_are_replaced_by_ours_and_back_under_load(cluster: Cluster, tmp_path: Path) -> None:
    admin.call(cluster.brokers[0], f"/admin/v2/namespaces/{NAMESPACE}", "PUT", {"bundles": {"numBundles": BUNDLES}})
    service_url = cluster.service_url
    first, second = [place_of(cluster, each) for each in list(cluster.brokers)]
    with JavaLoad(tmp_path, service_url, f"persistent://{NAMESPACE}/t", TOPICS) as load:
        for kind, other in ((OurBroker, ApacheBroker), (ApacheBroker, OurBroker)):
            replace(cluster, load, first, kind, left=second[other])
            replace(cluster, load, second, kind, left=first[kind])
        account = load.end()
    for each in load.phases:
        print(f"{each.name}: gap {each.gap_seconds:.1f} s, goes on: {each.goes_on}")
    print(account)
    assert all(each.goes_on for each in load.phases), load.phases
    assert (account["lost"], account["faults"]) == (0, [])
    repeats = {name: count for name, count in account["repeats"].items() if name not in APACHES_OWN}
    assert not repeats, account["repeats"]
