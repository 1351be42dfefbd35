"""Our leader moves busy bundles from our broker to Apache's, and Apache's leader from its own to ours, while clients go
on: what was published is received, in order."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster import admin
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat, OurBroker
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

SETTINGS = {
    "metadataStoreSessionTimeoutMillis": "6000",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
    "loadBalancerBrokerOverloadedThresholdPercentage": "1000",
    "loadBalancerDistributeBundlesEvenlyEnabled": "false",
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder",
    "loadBalancerSheddingIntervalMinutes": "1",
    "minUnloadMessage": "10",
    "maxUnloadPercentage": "0.5",
}
TOPICS = 8
NAMESPACE = "public/busy"
SHED_SECONDS_MAX = 280
"""Rates are those of the last full minute, and both leaders look once a minute."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=1, brokers=0, settings=SETTINGS) as made:
        yield made


class Traffic:
    """One producer for each topic, and one consumer; messages are numbered."""

    def __init__(self, client: pulsar.Client) -> None:
        names = [f"persistent://{NAMESPACE}/t{number}" for number in range(TOPICS)]
        self._consumers = [client.subscribe(name, "s") for name in names]
        self._producers = [client.create_producer(name, batching_enabled=False) for name in names]
        self._stop = threading.Event()
        self._failed: list[Exception] = []
        self.sent = 0

    @contextmanager
    def running(self) -> Iterator["Traffic"]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(60)

    def _run(self) -> None:
        """Sends a message to each topic, about forty times a second."""
        while not self._stop.is_set():
            try:
                for producer in self._producers:
                    producer.send(str(self.sent).encode())
            except Exception as error:
                self._failed.append(error)
                return
            self.sent += 1
            self._stop.wait(0.02)

    def check(self) -> None:
        """Every message came, in order; one may come again after its topic was moved."""
        assert not self._failed, self._failed
        for consumer in self._consumers:
            seen = -1
            while seen < self.sent - 1:
                message = consumer.receive(30_000)
                number = int(message.data())
                assert number <= seen + 1, f"{number} after {seen}"
                seen = max(seen, number)
                consumer.acknowledge(message)


def owners(by: BrokerSeat) -> list[str]:
    return [admin.lookup(by, f"{NAMESPACE}/t{number}").web_url for number in range(TOPICS)]


@pytest.mark.parametrize("kinds", [(OurBroker, ApacheBroker), (ApacheBroker, OurBroker)], ids=["ours", "apaches"])
def test_a_leader_moves_bundles_to_the_other_make(
    cluster: Cluster, make_client: ClientFactory, kinds: tuple[type[BrokerSeat], type[BrokerSeat]]
) -> None:
    leader = cluster.add_broker(kinds[0])
    leader.start()
    admin.call(leader, f"/admin/v2/namespaces/{NAMESPACE}", "PUT", {"bundles": {"numBundles": 16}})
    traffic = Traffic(make_client(leader.broker_url))
    with traffic.running():
        assert set(owners(leader)) == {leader.web_url}
        other = cluster.add_broker(kinds[1])
        other.start()
        assert admin.leader(other) == leader.broker_id
        began = time.monotonic()
        wait_until(lambda: other.web_url in moved(leader), "a bundle has moved", SHED_SECONDS_MAX)
        print(f"moved after {time.monotonic() - began:.0f} s")
    traffic.check()
    wait_until(lambda: owners(leader) == owners(other), "both say the same", 30)


def moved(by: BrokerSeat) -> list[str]:
    """Returns the owners; none while one is being moved."""
    with suppress(OSError):
        return owners(by)
    return []
