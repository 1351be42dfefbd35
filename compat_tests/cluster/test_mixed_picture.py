"""Topic policies in a cluster of Apache's broker and ours: each reads what the other wrote, and the topic that holds
the policies moves from one to the other when its owner is killed."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.admin import call
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.cluster.topic_limits import TOPICS, limits, owner, set_all, topic
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

EVENTS = "persistent://public/default/__change_events"
PARTITIONS = 3
LOADED_SECONDS = 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, bookies=1, brokers=1, settings={"metadataStoreSessionTimeoutMillis": "6000"})
    made.add_broker(ApacheBroker)
    with made:
        yield made


def make_topics(broker: BrokerSeat) -> None:
    for number in range(TOPICS):
        call(broker, topic(number), "PUT")


def shown_by(broker: BrokerSeat, expected: list[int]) -> None:
    wait_until(lambda: limits(broker) == expected, f"{broker.name} shows the policies", LOADED_SECONDS)


def until_alone(left: BrokerSeat) -> None:
    wait_until(lambda: len(call(left, "/admin/v2/brokers/c1")) == 1, "the other broker's session has ended", 30)


def test_policies_are_one_picture_while_either_broker_is_killed(cluster: Cluster) -> None:
    ours, apaches = cluster.brokers
    make_topics(ours)
    expected = set_all([ours, apaches], 10)
    assert {owner(ours, f"t{number}") for number in range(TOPICS)} == {ours.web_url, apaches.web_url}
    shown_by(ours, expected)
    shown_by(apaches, expected)
    first = 30
    for _ in range(2):
        killed = ours if owner(ours, "__change_events") == ours.web_url else apaches
        left = apaches if killed is ours else ours
        killed.kill()
        until_alone(left)
        shown_by(left, expected)
        expected = set_all([left], first)
        killed.start()
        shown_by(killed, expected)
        first += 20
        for number in range(TOPICS):
            call(left, f"{topic(number)}/unload", "PUT")
        shown_by(ours, expected)


def test_both_write_the_events_of_a_topic_to_the_same_partition(cluster: Cluster, make_client: ClientFactory) -> None:
    ours, apaches = cluster.brokers
    call(ours, "/admin/v2/persistent/public/default/__change_events/partitions", "PUT", PARTITIONS)
    make_topics(ours)
    set_all([ours, apaches], 10)
    before = {number: owner(ours, f"t{number}") for number in range(TOPICS)}
    for number, url in before.items():
        to = ours if url == apaches.web_url else apaches
        bundle = bundle_of(ours, number)
        path = f"/admin/v2/namespaces/public/default/{bundle}/unload"
        call(ours, f"{path}?destinationBroker={to.web_url.removeprefix('http://')}", "PUT")
    assert before != {number: owner(ours, f"t{number}") for number in range(TOPICS)}
    expected = set_all([ours, apaches], 40)
    shown_by(ours, expected)
    shown_by(apaches, expected)
    partitions = keys_of_partitions(make_client(ours.broker_url))
    assert sum(map(len, partitions)) == 2 * TOPICS
    assert sum(len(set(keys)) for keys in partitions) == TOPICS, "no key is in two partitions"


def bundle_of(broker: BrokerSeat, number: int) -> str:
    """Returns the range of the bundle of a topic."""
    path = f"/lookup/v2/topic/persistent/public/default/t{number}/bundle"
    with urllib.request.urlopen(broker.web_url + path, timeout=60) as answer:
        return str(answer.read().decode())


def keys_of_partitions(client: pulsar.Client) -> list[list[str]]:
    """Returns the keys of the events in each partition."""
    found: list[list[str]] = []
    for number in range(PARTITIONS):
        reader = client.create_reader(f"{EVENTS}-partition-{number}", pulsar.MessageId.earliest)
        keys: list[str] = []
        while reader.has_message_available():
            keys.append(reader.read_next(10_000).partition_key())
        found.append(keys)
        reader.close()
    return found
