"""One broker over a real ZooKeeper and real bookies: what it has acknowledged outlives its stop, its kill, and the kill
of a bookie."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

TIMEOUT_MS = 30_000
DEADLINE_MS = 2_000
CUT_SECONDS = 6.0
"""What the parts may take after the deadline, on a busy machine."""
WITH_A_SPARE_BOOKIE = {f"managedLedgerDefault{name}": "2" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=3, brokers=1, settings=WITH_A_SPARE_BOOKIE) as made:
        yield made


def publish(client: pulsar.Client, topic: str, texts: range) -> None:
    producer = client.create_producer(topic)
    for number in texts:
        producer.send(str(number).encode())
    producer.close()


def received(consumer: pulsar.Consumer, last: int) -> list[int]:
    """Returns the numbers of the messages up to the one with the number `last`, and acknowledges them."""
    numbers: list[int] = []
    while not numbers or numbers[-1] != last:
        message = consumer.receive(TIMEOUT_MS)
        numbers.append(int(message.data()))
        consumer.acknowledge(message)
    return numbers


def backlog(broker: BrokerSeat, topic: str) -> int:
    with urllib.request.urlopen(f"{broker.web_url}/admin/v2/{topic.replace('://', '/')}/stats") as answer:
        return int(json.load(answer)["subscriptions"]["s"]["msgBacklog"])


def test_what_was_acknowledged_outlives_the_broker(cluster: Cluster, make_client: ClientFactory, topic: str) -> None:
    broker = cluster.brokers[0]
    client = make_client(cluster.service_url)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, range(100))
    assert received(consumer, 49) == list(range(50))

    broker.kill()
    cluster.bookies[0].kill()
    broker.start()
    publish(client, topic, range(100, 200))
    again = received(consumer, 199)
    assert again == list(range(again[0], 200)), "what was acknowledged just before the kill may come again"
    assert again[0] <= 50

    # The client sends acknowledgements a moment later, together.
    wait_until(lambda: backlog(broker, topic) == 0, "all is acknowledged")
    broker.stop()
    broker.start()
    publish(client, topic, range(200, 210))
    assert received(consumer, 209) == list(range(200, 210))


def test_a_broker_of_a_cluster_that_nobody_made_says_so(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        cluster.zookeeper.start()
        broker = cluster.brokers[0]
        broker.spawn()
        assert broker.wait(30) == 1
        said = broker.log_text().splitlines()[-1]
        assert said.startswith("magnetar: there is no cluster 'c1'"), said
        assert said.endswith("make it once with: magnetar initialize-cluster-metadata"), said
    finally:
        cluster.close()


def test_a_stop_while_zookeeper_is_away_ends_at_the_deadline(
    tmp_path: Path, make_client: ClientFactory, topic: str
) -> None:
    with Cluster(tmp_path, settings={"brokerShutdownTimeoutMs": str(DEADLINE_MS)}) as cluster:
        broker = cluster.brokers[0]
        publish(make_client(cluster.service_url), topic, range(10))
        cluster.zookeeper.pause()
        try:
            began = time.monotonic()
            broker.terminate()
            assert broker.wait(30) == 0
            took = time.monotonic() - began
        finally:
            cluster.zookeeper.resume()
        assert took < DEADLINE_MS / 1000 + CUT_SECONDS
        assert "brokerShutdownTimeoutMs" in broker.log_text()

        # The log keeps what was acknowledged: the next broker recovers it.
        broker.start()
        client = make_client(cluster.service_url)
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert [int(reader.read_next(30_000).data()) for _ in range(10)] == list(range(10))
