"""Apache's bookie and Apache's broker on our ZooKeeper server, which is killed and started again under them."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.apache_seats import ApacheBookie, ApacheBroker
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.own_zookeeper import OwnZooKeeper
from compat_tests.cluster.process import POLL_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "persistent://public/default/on-our-zookeeper"
MESSAGES = 200
RECEIVE_MS = 20_000


class PlainBookie(ApacheBookie):
    """Apache's bookie without an HTTP port, for which the broker's jars have no class. It is ready when it is
    registered, since its port opens before its journal is replayed."""

    def command(self) -> list[str]:
        command = super().command()
        conf = Path(command[-1])
        conf.write_text(conf.read_text().replace("httpServerEnabled=true", "httpServerEnabled=false"))
        return command

    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        port = int(self.settings["metadataServiceUri"].split("/")[2].rpartition(":")[2])
        zookeeper = OwnZooKeeper("asked", self.folder, port=port)
        while process.poll() is None and time.monotonic() < deadline:
            if f"/ledgers/available/{self.bookie_id}" in zookeeper.four_letter_word("dump"):
                return True
            time.sleep(POLL_SECONDS)
        return False


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    seats = Seats(metadata=OwnZooKeeper, bookie=PlainBookie, broker=ApacheBroker)
    settings = {"metadataStoreSessionTimeoutMillis": "20000"}
    with Cluster(tmp_path, bookies=1, brokers=1, settings=settings, seats=seats) as made:
        yield made


def send(client: pulsar.Client, topic: str, first: int) -> None:
    producer = client.create_producer(topic)
    for number in range(first, first + MESSAGES):
        producer.send(str(number).encode())
    producer.close()


def received(client: pulsar.Client, topic: str, count: int) -> list[int]:
    consumer = client.subscribe(topic, "all", initial_position=pulsar.InitialPosition.Earliest)
    numbers = []
    for _ in range(count):
        message = consumer.receive(timeout_millis=RECEIVE_MS)
        numbers.append(int(message.data()))
        consumer.acknowledge(message)
    consumer.close()
    return numbers


def test_apaches_broker_and_bookie_serve_on_our_zookeeper(cluster: Cluster) -> None:
    client = pulsar.Client(cluster.service_url)
    send(client, TOPIC, 0)
    assert received(client, TOPIC, MESSAGES) == list(range(MESSAGES))
    cluster.zookeeper.kill()
    cluster.zookeeper.start()
    send(client, TOPIC, MESSAGES)
    send(client, f"{TOPIC}-made-later", 0)
    assert received(client, TOPIC, MESSAGES) == list(range(MESSAGES, 2 * MESSAGES))
    assert received(client, f"{TOPIC}-made-later", MESSAGES) == list(range(MESSAGES))
    client.close()
    broker = cluster.brokers[0]
    broker.stop()
    broker.start()
    client = pulsar.Client(cluster.service_url)
    send(client, TOPIC, 2 * MESSAGES)
    assert received(client, TOPIC, MESSAGES) == list(range(2 * MESSAGES, 3 * MESSAGES))
    client.close()
