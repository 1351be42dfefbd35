"""Transactions of Apache's Go client in a cluster of three brokers, of which one is killed before the commit."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.spread_transaction import NAMESPACE, TWO_BOOKIES, Spread, names_apart, spread
from compat_tests.conftest import ClientFactory

pytestmark = pytest.mark.slow

WAIT_MS = 60_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=2, brokers=3, settings=TWO_BOOKIES) as made:
        yield made


@pytest.mark.parametrize("lost", Spread._fields)
def test_a_message_is_moved_although_a_broker_of_its_transaction_is_killed(
    program: Path, cluster: Cluster, make_client: ClientFactory, lost: str
) -> None:
    source, target = names_apart(cluster, "in", "out")
    client = make_client(cluster.service_url)
    producer = client.create_producer(f"persistent://{NAMESPACE}/{source}", batching_enabled=False)
    for text in (b"first", b"second"):
        producer.send(text)
    topics = [f"persistent://{NAMESPACE}/{name}" for name in (source, target)]
    with subprocess.Popen(
        [program, "move", cluster.service_url, *topics],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as moving:
        assert moving.stdin is not None
        assert moving.stdout is not None
        brokers = spread(cluster, moving.stdout.readline().strip(), source, target)
        moving.stdin.write("take\n")
        assert moving.stdout.readline() == "held\n"
        getattr(brokers, lost).kill()
        moving.stdin.write("commit\n")
        assert moving.stdout.readline() == "moved=ok\n"
    assert next_of(client, topics[1], "reader") == b"first"
    assert next_of(client, topics[0], "s") == b"second"


def next_of(client: pulsar.Client, topic: str, subscription: str) -> bytes:
    """Returns the next message of a subscription, which begins at the first one if it is new."""
    consumer = client.subscribe(
        topic,
        subscription,
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    text: bytes = consumer.receive(WAIT_MS).data()
    consumer.close()
    return text
