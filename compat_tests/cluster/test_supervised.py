"""`magnetar cluster`: each of its processes may be killed under load, and the supervisor with all of them."""

import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.supervised import SteadyPublisher, SupervisedCluster
from compat_tests.conftest import ClientFactory

OWNER_KILLED_SECONDS = 1.5
"""The goal. A busy machine may take longer, so that the test only fails when nobody ended the session (30 s)."""
STALL_SECONDS = 8.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SupervisedCluster]:
    with SupervisedCluster(tmp_path) as made:
        yield made
    made.assert_no_errors()


def stored(client: pulsar.Client, topic: str, count: int) -> list[bytes]:
    """Returns `count` different messages in the order of their first copies. A client that lost its broker sends again
    what has no receipt yet, so a message may be stored twice."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found: dict[bytes, None] = {}
    while len(found) < count:
        found[reader.read_next(30_000).data()] = None
    return list(found)


def test_each_process_may_be_killed_under_load(
    cluster: SupervisedCluster, make_client: ClientFactory, topic: str
) -> None:
    with SteadyPublisher(cluster.service_url, [topic]) as publisher:
        for kind, number in (("metadata", 0), ("bookies", 1), ("brokers", cluster.owner(topic))):
            moment = time.monotonic()
            former = cluster.kill_child(kind, number)
            cluster.await_return(kind, former, number)
            publisher.goes_on()
            assert publisher.gap_since(moment) < STALL_SECONDS, kind
    assert not publisher.failures
    client = make_client(cluster.service_url)
    assert stored(client, topic, publisher.sent) == publisher.bodies


def test_the_data_outlive_all_processes_at_once(
    cluster: SupervisedCluster, make_client: ClientFactory, topic: str
) -> None:
    with SteadyPublisher(cluster.service_url, [topic], rate=1000) as publisher:
        publisher.goes_on(500)
    addresses = [each["brokerServiceUrl"] for each in cluster.brokers]
    cluster.kill()
    assert cluster.start() < 30
    assert [each["brokerServiceUrl"] for each in cluster.brokers] == addresses
    assert stored(make_client(cluster.service_url), topic, publisher.sent) == publisher.bodies
