"""ZooKeeper is stopped under a broker: what is loaded goes on being published, consumed and looked up."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

STOPPED_SECONDS = 10.0
PAUSE_SECONDS_MAX = 3.0
"""A busy machine stalls for a while. Whoever waits for ZooKeeper waits for most of STOPPED_SECONDS."""
PUBLISHES_A_SECOND = 50

SMALL_LEDGERS = {
    "managedLedgerMaxEntriesPerLedger": "100",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "managedLedgerCursorMaxEntriesPerLedger": "20",
}
"""Ledgers are full, and cursor ledgers due, all the time."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, bookies=3, brokers=1, settings=SMALL_LEDGERS) as made:
        yield made


class Traffic:
    """Publishes at a steady pace on a thread, and consumes and acknowledges what comes."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.sent = 0
        self.receipts: list[float] = []
        self.faults: list[object] = []
        self.received: list[int] = []
        self._consumer = client.subscribe(topic, "s", message_listener=self._on_message)
        self._producer = client.create_producer(topic)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def longest(self, since: float) -> float:
        """Returns the longest time between two receipts, up to now."""
        moments = [since, *(moment for moment in list(self.receipts) if moment >= since), time.monotonic()]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush()

    def _publish(self) -> None:
        while not self._ended.wait(1 / PUBLISHES_A_SECOND):
            self._producer.send_async(str(self.sent).encode(), self._done)
            self.sent += 1

    def _done(self, result: object, _: object) -> None:
        if result == pulsar.Result.Ok:
            self.receipts.append(time.monotonic())
        else:
            self.faults.append(result)

    def _on_message(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        self.received.append(int(message.data()))
        consumer.acknowledge(message)


def test_loaded_topics_go_on_while_zookeeper_is_stopped(
    cluster: Cluster, make_client: ClientFactory, topic: str
) -> None:
    traffic = Traffic(make_client(cluster.service_url), topic)
    try:
        wait_until(lambda: len(traffic.receipts) > 150, "the topic has gone from ledger to ledger")
        began = time.monotonic()
        cluster.zookeeper.pause()
        wait_until(lambda: time.monotonic() > began + STOPPED_SECONDS / 2, "ZooKeeper is away", 60)
        looked_up = time.monotonic()
        late = make_client(cluster.service_url)
        producer = late.create_producer(topic)
        producer.send(b"-1")
        reader = late.create_reader(topic, pulsar.MessageId.latest)  # a new subscription would need ZooKeeper
        reader.close()
        producer.close()
        assert time.monotonic() - looked_up < PAUSE_SECONDS_MAX, "a lookup of a loaded topic waited for ZooKeeper"
        wait_until(lambda: time.monotonic() > began + STOPPED_SECONDS, "ZooKeeper was away for long", 60)
        assert traffic.longest(began) < PAUSE_SECONDS_MAX
        cluster.zookeeper.resume()
        resumed = len(traffic.receipts)
        wait_until(lambda: len(traffic.receipts) > resumed + 150, "the topic has gone on from ledger to ledger", 60)
        assert traffic.longest(began) < PAUSE_SECONDS_MAX
    finally:
        cluster.zookeeper.resume()
        traffic.end()
    assert not traffic.faults
    wait_until(lambda: len(traffic.received) > traffic.sent, "all is received", 60)
    assert [number for number in traffic.received if number >= 0] == list(range(traffic.sent))
