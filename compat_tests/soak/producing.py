"""The producers of a soak: they come, send at a modest rate, survive kills, flush and go, and others follow."""

import itertools
import random
import time
import zlib
from typing import Any

import pulsar
from pulsar.schema import JsonSchema, Record, String

from compat_tests.python.receipts import ProducerRecord
from compat_tests.soak.stage import Stage, TopicRecord, place_of

TICK_SECONDS = 0.25
LIFE_SECONDS = (20.0, 70.0)
CHUNKED_BODY_BYTES = (45_000, 90_000)
DELAY_SECONDS_MAX = 4.0
AGAIN_ODDS = 0.2
"""With deduplication: the chance, in each tick, that an old message is sent again."""
PENDING_MAX = 300


class BigProducerRecord(ProducerRecord):
    """A record whose messages are so large that they are sent in several chunks."""

    __slots__ = ()

    def body(self, sequence: int) -> bytes:
        least, most = CHUNKED_BODY_BYTES
        size = least + sequence * 7919 % (most - least)
        data = b"%s:%d:" % (self.name.encode(), sequence) + random.Random(sequence).randbytes(size)
        return b"%08x:" % zlib.crc32(data) + data


class Parcel(Record):  # type: ignore[misc]
    """The first version of a schema."""

    body = String()


class LabelledParcel(Record):  # type: ignore[misc]
    """The second version, compatible in both directions."""

    body = String()
    label = String(default="", required_default=True)


LabelledParcel.__name__ = "Parcel"


class ProducerLife:
    """One producer from its creation to its close, with a record for each of its keys."""

    def __init__(self, stage: Stage, topic: TopicRecord, name: str, options: dict[str, Any]) -> None:
        self._stage = stage
        self._topic = topic
        self._name = name
        self._options = dict(options)
        self._choices = stage.random_for(name)
        self._records: dict[str, ProducerRecord] = {}
        self._partitions = 1
        self._value_class = self._choices.choice((Parcel, LabelledParcel))

    def run(self, client: pulsar.Client) -> None:
        spec = self._topic.spec
        producer = self._stage.insist(lambda: self._create(client))
        if producer is None:
            return
        ends = time.monotonic() + self._choices.uniform(*LIFE_SECONDS)
        owed = 0.0
        while not self._stage.ended.is_set() and time.monotonic() < ends:
            owed += spec.rate * TICK_SECONDS * self._choices.uniform(0.5, 1.5)
            while owed >= 1:
                owed -= 1
                self._send(producer)
            if spec.is_deduplicated and not spec.is_chunked and self._choices.random() < AGAIN_ODDS:
                self._send_again(producer)
            self._stage.pause(TICK_SECONDS)
        producer.flush()
        producer.close()
        for record in self._records.values():
            if len(record.receipts) != record.sent:
                self._stage.complain(f"(6) {record.name}: {len(record.receipts)} receipts for {record.sent} sends")

    def _create(self, client: pulsar.Client) -> pulsar.Producer:
        spec, options = self._topic.spec, self._options
        if spec.partitions:
            self._partitions = len(client.get_topic_partitions(spec.full_name))
            options["message_router"] = lambda message, count: self._partition_of(message.partition_key())
        if spec.is_json:
            options["schema"] = JsonSchema(self._value_class)
        return client.create_producer(
            spec.full_name,
            producer_name=self._name,
            send_timeout_millis=0,
            max_pending_messages=PENDING_MAX,
            block_if_queue_full=True,
            **options,
        )

    def _partition_of(self, key: str) -> int:
        return zlib.crc32(key.encode()) % self._partitions

    def _record(self) -> tuple[ProducerRecord, str]:
        """Draws the next message's key, and returns the key's record and the key."""
        key = f"k{self._choices.randrange(self._topic.spec.keys)}" if self._topic.spec.keys else ""
        record = self._records.get(key)
        if record is None:
            name = f"{self._name}/{key}" if key else self._name
            made = BigProducerRecord(name) if self._topic.spec.is_chunked else ProducerRecord(name)
            record = self._records[key] = self._topic.producers[name] = made
        return record, key

    def _send(self, producer: pulsar.Producer) -> None:
        spec, stage = self._topic.spec, self._stage
        record, key = self._record()
        sequence, record.sent = record.sent, record.sent + 1
        more: dict[str, Any] = {"partition_key": key} if key else {}
        if spec.is_deduplicated:
            more["sequence_id"] = sequence
        if spec.is_delayed and self._choices.random() < 0.7:
            due = time.time() + self._choices.uniform(0.1, DELAY_SECONDS_MAX)
            self._topic.due[record.name, sequence] = due
            more["deliver_at"] = int(due * 1000)
        body: Any = record.body(sequence)
        if spec.is_json:
            body = self._value_class(body=body.hex())

        def receipt(result: pulsar.Result, message_id: Any) -> None:
            if result == pulsar.Result.Ok:
                record.receipts.append(place_of(message_id))
                stage.counts["receipts"] += 1
            else:
                stage.complain(f"(6) {record.name}: {sequence} failed with {result}")

        stage.counts["sent"] += 1
        if not spec.is_chunked:
            producer.send_async(body, receipt, **more)
            return
        with stage.chunking:
            producer.send_async(body, receipt, **more)
            producer.flush()

    def _send_again(self, producer: pulsar.Producer) -> None:
        (record,) = self._records.values() or (None,)
        if record is None or len(record.receipts) < 5:
            return
        sequence = self._choices.randrange(len(record.receipts) - 4, len(record.receipts))
        self._stage.counts["sent again"] += 1
        producer.flush()  # a batch may not hold both old and new messages
        producer.send_async(record.body(sequence), lambda result, message_id: None, sequence_id=sequence)
        producer.flush()


def produce(stage: Stage, topic: TopicRecord, slot: int, options: dict[str, Any], client: pulsar.Client) -> None:
    """Runs one producer after the other until the load ends."""
    for number in itertools.count():
        if stage.ended.is_set():
            return
        ProducerLife(stage, topic, f"{topic.spec.name}-{slot}-{number}", options).run(client)
        stage.counts["producers"] += 1
