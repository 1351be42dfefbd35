"""Clients that come during the faults: each asks one broker for a topic, sends some messages and goes.

The clients of `load` stay where they are connected for as long as they can. Visitors make brokers look topics up and
load them, also one that has taken a bundle from an owner that does not know of it yet, which then must not confirm.
"""

import itertools
import threading
from collections.abc import Sequence

import pulsar

from compat_tests.chaos.cluster import ChaosCluster
from compat_tests.python.receipts import ProducerRecord
from compat_tests.soak.stage import Stage, TopicRecord, place_of

EVERY_SECONDS = 0.7
MESSAGES = 8
TIMEOUT_SECONDS = 6


class Visitors:
    """The visitors of one round. One that fails leaves: what it sent may or may not be stored."""

    def __init__(self, cluster: ChaosCluster, stage: Stage, topics: Sequence[TopicRecord]) -> None:
        self._stage = stage
        self._topics = [topic for topic in topics if not topic.spec.keys]
        self._urls = [cluster.broker_url_of(name) for name in cluster.shape.brokers]
        self._choices = stage.random_for("visitors")
        self._ended = threading.Event()
        self._records: list[tuple[TopicRecord, ProducerRecord]] = []

    def start(self) -> None:
        for url in self._urls:
            self._stage.run(f"visitors of {url}", self._run, url)

    def end(self) -> None:
        """Lets nobody come any more."""
        self._ended.set()

    def register(self) -> None:
        """Adds what visitors sent to the topics' records, once they all have left."""
        for topic, record in self._records:
            topic.producers[record.name] = record

    def _run(self, url: str) -> None:
        for number in itertools.count():
            if self._ended.wait(EVERY_SECONDS):
                return
            topic = self._choices.choice(self._topics)
            record = ProducerRecord(f"visitor-{url.rpartition('/')[2]}-{number}".replace(":", "-"))
            self._records.append((topic, record))
            client = self._stage.new_client(url, TIMEOUT_SECONDS)
            try:
                visit(client, topic.spec.full_name, record)
                self._stage.counts["visits"] += 1
            except pulsar.PulsarException:
                self._stage.counts["visits in vain"] += 1
            self._stage.close_client(client)


def visit(client: pulsar.Client, topic: str, record: ProducerRecord) -> None:
    """Sends messages, one after the other, and notes their receipts. Raises PulsarException at the first that has
    none in time."""
    producer = client.create_producer(
        topic, producer_name=record.name, send_timeout_millis=1000 * TIMEOUT_SECONDS, batching_enabled=False
    )
    for sequence in range(MESSAGES):
        record.sent += 1
        record.receipts.append(place_of(producer.send(record.body(sequence), sequence_id=sequence)))
    producer.close()
