"""A broker is frozen for longer than its session with ZooKeeper lasts, and wakes up as the owner of what it may own no
longer."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.publisher import Publisher, read_all
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

SESSION_SECONDS = 4.0
FROZEN_SECONDS = 6.0
SETTINGS = {"metadataStoreSessionTimeoutMillis": str(int(1000 * SESSION_SECONDS))}


def ask(broker: BrokerSeat, path: str) -> object:
    with urllib.request.urlopen(f"{broker.web_url}/{path}", timeout=20) as answer:
        return json.load(answer)


def owner_of(broker: BrokerSeat, topic: str) -> str:
    """Returns the address of the topic's owner, as this broker tells it."""
    found = ask(broker, f"lookup/v2/topic/{topic.replace('://', '/')}")
    assert isinstance(found, dict)
    return str(found["brokerUrl"])


def freeze(broker: BrokerSeat) -> None:
    began = time.monotonic()
    broker.pause()
    wait_until(lambda: time.monotonic() > began + FROZEN_SECONDS, "the session is over", 60)
    broker.resume()


class TestOneBroker:
    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Iterator[Cluster]:
        with Cluster(tmp_path, bookies=1, brokers=1, settings=SETTINGS) as made:
            yield made

    def test_it_is_a_member_again_and_goes_on(self, cluster: Cluster, make_client: ClientFactory, topic: str) -> None:
        broker = cluster.brokers[0]
        client = make_client(cluster.service_url)
        publisher = Publisher(client, topic)
        try:
            wait_until(lambda: len(publisher.receipts) > 50, "it publishes")
            freeze(broker)
            resumed = len(publisher.receipts)
            wait_until(lambda: len(publisher.receipts) > resumed + 50, "it publishes again", 60)
            wait_until(lambda: ask(broker, "admin/v2/brokers/c1") != [], "it is registered again", 30)
        finally:
            broker.resume()
            publisher.end()
        assert not publisher.faults
        assert owner_of(broker, topic) == broker.broker_url
        leader = ask(broker, "admin/v2/brokers/leaderBroker")
        assert isinstance(leader, dict)
        assert f"http://{leader['brokerId']}" == broker.web_url
        read_all(client, topic, [publisher])


class TestTwoBrokers:
    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Iterator[Cluster]:
        with Cluster(tmp_path, bookies=1, brokers=2, settings=SETTINGS) as made:
            yield made

    def test_who_was_taken_over_in_his_sleep_confirms_nothing(
        self, cluster: Cluster, make_client: ClientFactory, topic: str
    ) -> None:
        sleepers = Publisher(make_client(cluster.service_url), topic)
        publishers = [sleepers]
        frozen = other = cluster.brokers[0]
        try:
            wait_until(lambda: len(sleepers.receipts) > 50, "it publishes")
            owner = owner_of(other, topic)
            frozen, other = sorted(cluster.brokers, key=lambda broker: broker.broker_url != owner)
            frozen.pause()
            wait_until(lambda: owner_of(other, topic) == other.broker_url, "the other broker takes the topic", 60)
            client = make_client(other.broker_url)
            publishers.append(Publisher(client, topic, first=1_000_000))
            wait_until(lambda: len(publishers[1].receipts) > 50, "clients of the other broker publish", 60)
            asleep = len(sleepers.receipts)
            frozen.resume()
            wait_until(lambda: len(sleepers.receipts) > asleep + 50, "the sleeper's client has found the owner", 60)
            assert owner_of(frozen, topic) == other.broker_url
            wait_until(
                lambda: len(ask(other, "admin/v2/brokers/c1")) == 2,  # type: ignore[arg-type]
                "the sleeper is a member again",
                30,
            )
        finally:
            frozen.resume()
            for publisher in publishers:
                publisher.end()
        assert not [publisher.faults for publisher in publishers if publisher.faults]
        read_all(client, topic, publishers)
