"""The readers of a soak: one that follows, one that seeks, readers of the compacted topic, and one of a non-persistent
topic."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from typing import Any

import pulsar

from compat_tests.python.receipts import Place, ProducerRecord, Stored, parse
from compat_tests.soak.claims import run_complaints
from compat_tests.soak.stage import (
    FLEETING_KEY,
    RETRY_SECONDS,
    Stage,
    TopicRecord,
    place_of,
    received,
    rest_of,
    stored_in,
)
from compat_tests.soak.topics import NAMESPACE, TopicSpec

SEEK_EVERY_SECONDS = 2.0
RUN_MESSAGES = 40
KNOWN_MESSAGES = 500
CLOCK_SLACK_MS = 10_000
"""The tolerance for publish times, because messages that were sent again after a kill bear the time at which they were
first sent."""
COMPACTION_EVERY_SECONDS = 8.0
NON_PERSISTENT_RATE = 20
NON_PERSISTENT_BURST = 3
NON_PERSISTENT = f"non-persistent://{NAMESPACE}/fleeting"


@dataclass(slots=True)
class Run:
    """What came after a seek, up to the next interruption."""

    to: str
    target: Any
    places: list[Place] = field(default_factory=list)


def follow(stage: Stage, topic: TopicSpec, client: pulsar.Client, run: Run) -> None:
    """Runs one reader from the beginning to the end of the soak; it survives every kill."""
    reader = client.create_reader(topic.full_name, pulsar.MessageId.earliest)
    while not stage.ended.is_set():
        for message in received(reader):
            stored = stored_in(message)
            assert stored is not None
            run.places.append(stored.place)
            stage.counts["read"] += 1
    reader.close()


class Seeker:
    """Moves a subscription of its own back and forth."""

    def __init__(self, stage: Stage, topic: TopicRecord, client: pulsar.Client) -> None:
        self._stage = stage
        self._topic = topic
        self._client = client
        self._choices = stage.random_for("seeker")
        self._known: list[tuple[Any, int]] = []
        """Known message ids with their publish times."""
        self.runs: list[Run] = []

    def run(self) -> None:
        stage = self._stage
        consumer = self._client.subscribe(
            self._topic.spec.full_name, "seeks", initial_position=pulsar.InitialPosition.Earliest
        )
        self._take(consumer, Run("nothing", None))
        while not stage.ended.is_set():
            disturbed = self._disturbances()
            try:
                run = self._seek(consumer)
                self._take(consumer, run)
            except pulsar.PulsarException:
                stage.counts["refused calls"] += 1
                stage.pause(RETRY_SECONDS)
                continue
            if disturbed == self._disturbances() and stage.is_up.is_set() and not stage.ended.is_set():
                stage.counts["seeks"] += 1
                self.runs.append(run)
            stage.pause(SEEK_EVERY_SECONDS)
        consumer.close()

    def _disturbances(self) -> int:
        return len(self._stage.kills) + len(self._topic.unloads) + self._stage.counts["unloads begun"]

    def _seek(self, consumer: pulsar.Consumer) -> Run:
        how = self._choices.choice(("earliest", "after", "time"))
        if how == "earliest" or not self._known:
            consumer.seek(pulsar.MessageId.earliest)
            return Run("earliest", None)
        message_id, published = self._choices.choice(self._known)
        if how == "after":
            consumer.seek(message_id)
            return Run(how, place_of(message_id))
        consumer.seek(published)
        return Run(how, published)

    def _take(self, consumer: pulsar.Consumer, run: Run) -> None:
        for message in chain.from_iterable(received(consumer) for _ in range(RUN_MESSAGES)):
            run.places.append(place_of(message.message_id()))
            self._known.append((message.message_id(), message.publish_timestamp()))
            consumer.acknowledge_cumulative(message)
        while len(self._known) > KNOWN_MESSAGES:
            self._known.pop(self._choices.randrange(len(self._known)))


def complaints_about_runs(runs: Sequence[Run], log: Sequence[Stored], times: Sequence[int]) -> list[str]:
    """Checks what came after each seek. `times` are the publish times of the log's messages in ms."""
    indexes = {each.place: at for at, each in enumerate(log)}
    found: list[str] = []
    for run in runs:
        if not run.places:
            continue
        if run.places[0] not in indexes:
            found.append(f"(8) a seek to {run.to} {run.target} led to {run.places[0]}, which is not in the log")
            continue
        first = indexes[run.places[0]]
        if run.to == "earliest":
            first = 0
        elif run.to == "after":
            first = indexes[run.target] + 1
        elif run.to == "time":
            latest = next(
                at
                for at, published in enumerate(times)
                if published >= run.target + CLOCK_SLACK_MS or at == len(times) - 1
            )
            if not run.target - CLOCK_SLACK_MS <= times[first] or first > latest:
                found.append(f"(8) a seek to the time {run.target} led to {times[first]}")
        found += run_complaints(f"after a seek to {run.to} {run.target}", run.places, log, first)
    return found


class CompactionWatch:
    """Asks for compactions, and checks what readers of the compacted topic see meanwhile."""

    def __init__(self, stage: Stage, topic: TopicRecord, client: pulsar.Client) -> None:
        self._stage = stage
        self._topic = topic
        self._client = client

    def run(self) -> None:
        stage, name = self._stage, self._topic.spec.full_name
        producer = self._client.create_producer(name, batching_enabled=False, send_timeout_millis=0)
        for number in count():
            stage.pause(COMPACTION_EVERY_SECONDS)
            if stage.ended.is_set():
                break
            stage.insist(partial(send_fleeting, producer, f"{FLEETING_KEY}-{number % 5}"))
            if stage.is_up.is_set():
                self._ask()
                self._look()
        producer.close()

    def _ask(self) -> None:
        try:
            self._stage.admin.put(f"{self._topic.spec.rest_path}/compaction")
            self._stage.counts["compactions"] += 1
        except Exception:  # a compaction is running already, or the server is being killed
            self._stage.counts["refused calls"] += 1

    def _look(self) -> None:
        """Reads the compacted topic: every key must be at least as new as its last receipt was when this call began."""
        least = newest_receipts(list(self._topic.producers.values()))
        try:
            seen = last_of_keys(read_compacted(self._client, self._topic.spec))
        except (pulsar.PulsarException, TimeoutError):  # the server is being killed
            self._stage.counts["refused calls"] += 1
            return
        for key, place in least.items():
            if key not in seen or seen[key].place < place:
                self._stage.complain(f"(12) key {key} had a receipt for {place}, compacted readers see {seen.get(key)}")
        self._stage.counts["compacted looks"] += 1


def send_fleeting(producer: pulsar.Producer, key: str) -> bool:
    """Sends a key and then deletes it."""
    for body in (b"x", b"y", b""):
        producer.send(body, partition_key=key)
    return True


def newest_receipts(producers: Sequence[ProducerRecord]) -> dict[str, Place]:
    """Returns the newest receipt of each key."""
    newest: dict[str, Place] = {}
    for record in producers:
        if record.receipts:
            key = record.name.partition("/")[2]
            newest[key] = max(record.receipts[-1], newest.get(key, record.receipts[-1]))
    return newest


def last_of_keys(found: Sequence[tuple[str, Stored | None]]) -> dict[str, Stored]:
    return {key: stored for key, stored in found if stored is not None}


def read_compacted(client: pulsar.Client, topic: TopicSpec) -> list[tuple[str, Stored | None]]:
    """Returns (key, message) for all that a reader of the compacted topic gets, in its order; the message is None when
    no record lists it."""
    reader = client.create_reader(topic.full_name, pulsar.MessageId.earliest, is_read_compacted=True)
    found = [(message.partition_key(), stored_in(message)) for message in rest_of(reader)]
    reader.close()
    return found


def fleeting(stage: Stage, client: pulsar.Client) -> None:
    """Watches a non-persistent topic: what comes was sent, and comes in order, but some may be missing."""
    consumer = client.subscribe(NON_PERSISTENT, "s")
    producer = client.create_producer(NON_PERSISTENT, batching_enabled=False, send_timeout_millis=0)
    record, last = ProducerRecord("fleeting"), -1
    while not stage.ended.is_set():
        producer.send_async(record.body(record.sent), lambda result, message_id: None)
        record.sent += 1
        for message in chain.from_iterable(received(consumer, 1) for _ in range(NON_PERSISTENT_BURST)):
            stored = parse(message.data(), place_of(message.message_id()))
            if not last < stored.sequence < record.sent:
                stage.complain(f"(8) non-persistent: {stored.sequence} after {last}")
            last = stored.sequence
            consumer.acknowledge(message)
            stage.counts["non-persistent"] += 1
        stage.pause(1 / NON_PERSISTENT_RATE)
    for each in (producer, consumer):
        each.close()
