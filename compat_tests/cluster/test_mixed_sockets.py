"""Sockets of our broker for a topic whose partitions Apache's broker and ours own: they stay open when the partitions
change places and when Apache's broker is killed."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import ClientConnection, connect

from compat_tests.cluster.admin import call
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.cluster.socket_streams import Consuming, Producing
from compat_tests.harness import WAIT_SECONDS, wait_until

NAMESPACE = "public/sockets"
TOPIC = f"persistent/{NAMESPACE}/parted"
PARTITIONS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, bookies=1, brokers=1, settings={"metadataStoreSessionTimeoutMillis": "6000"})
    made.add_broker(ApacheBroker)
    with made:
        yield made


def opened(broker: BrokerSeat, path: str) -> ClientConnection:
    url = f"ws{broker.web_url.removeprefix('http')}/ws/v2/{path}"
    return connect(url, max_size=None, compression=None, open_timeout=WAIT_SECONDS)


def owners(broker: BrokerSeat) -> list[str]:
    """Returns the web address of each partition's owner."""
    path = f"/lookup/v2/topic/{TOPIC}-partition"
    return [str(call(broker, f"{path}-{index}")["httpUrl"]) for index in range(PARTITIONS)]


def move(broker: BrokerSeat, index: int, to: BrokerSeat) -> None:
    """Moves the bundle of a partition, and with it other partitions of the bundle."""
    with urllib.request.urlopen(f"{broker.web_url}/lookup/v2/topic/{TOPIC}-partition-{index}/bundle") as answer:
        bundle = answer.read().decode()
    path = f"/admin/v2/namespaces/{NAMESPACE}/{bundle}/unload"
    call(broker, f"{path}?destinationBroker={to.web_url.removeprefix('http://')}", "PUT")
    wait_until(lambda: owners(broker)[index] == to.web_url, f"partition {index} has moved to {to.name}")


def test_sockets_stay_open_while_partitions_move_to_and_from_apaches_broker_and_it_is_killed(cluster: Cluster) -> None:
    """Nothing that was answered "ok" is lost, answers come in order, and each partition keeps its order."""
    ours, apaches = cluster.brokers
    call(ours, f"/admin/v2/namespaces/{NAMESPACE}", "PUT", {"bundles": {"numBundles": 16}})
    call(ours, f"/admin/v2/{TOPIC}/partitions", "PUT", PARTITIONS)
    move(ours, 0, ours)
    move(ours, 1, apaches)
    assert set(owners(ours)) == {ours.web_url, apaches.web_url}
    with (
        opened(ours, f"consumer/{TOPIC}/s?subscriptionInitialPosition=Earliest") as consumer,
        opened(ours, f"producer/{TOPIC}?messageRoutingMode=RoundRobinPartition") as producer,
    ):
        consuming, producing = Consuming(consumer), Producing(producer, PARTITIONS)
        producing.goes_on()
        move(ours, 0, apaches)
        move(ours, 1, ours)
        producing.goes_on()
        assert owners(ours)[:2] == [apaches.web_url, ours.web_url]
        apaches.kill()
        producing.goes_on()
        producing.end()
        wait_until(lambda: consuming.has_all(producing.stored), "everything that was stored is consumed")
        assert (producing.faults, consuming.faults) == ([], [])
        assert producing.answers == list(range(producing.sent))
        assert consuming.has_in_order(producing.stored)
