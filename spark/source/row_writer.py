"""The executor's part of writing: sends one task's rows to the producers of their partitions."""

import base64
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from magnetar.spark.source.client.partition_producer import (
    OutgoingMessage,
    PartitionProducer,
    ProducerSettings,
    SendFailed,
)
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.columns.message_builder import MessageBuilder
from magnetar.spark.source.options import WriteOptions
from magnetar.spark.source.worker_relief import relieve_worker

BATCH_ID_PROPERTY = "streaming.sql.batchId"
QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""The name of the local property by which Spark tells the tasks of a micro-batch their query; BATCH_ID_PROPERTY tells
them the batch (MicroBatchExecution, StreamExecution)."""

ROWS_OF_A_TASK_MAX = 2**32
"""A row's sequence id is the batch's number times this number, plus the row's number in its task."""


KEY_ROWS, KEY_BYTES = 10_000, 32 * 1024 * 1024
"""How many messages, and how many bytes of values, are put in the order of their keys at once."""


@dataclass
class WrittenRows(WriterCommitMessage):
    """A task's report to the driver. `rows` counts all rows of the task, `skipped` the rows that an earlier attempt had
    written."""

    rows: int = 0
    skipped: int = 0
    topics: list[str] = field(default_factory=list)


def write_rows(
    batches: Iterator[pa.RecordBatch], columns: StructType, options: WriteOptions, *, streaming: bool
) -> WrittenRows:
    """Writes the rows of the running task and returns when all are stored. Raises SendFailed when the broker does not
    store a message, and BadColumns for a row that cannot be written."""
    context = TaskContext.get()
    assert context is not None, "only tasks of Spark write"
    name, batch_id = options.producer_name, 0
    if streaming:
        batch_id = int(_property(context, BATCH_ID_PROPERTY))
        name = name or f"spark-{_property(context, QUERY_ID_PROPERTY)}"
    producer_name = f"{name}-{context.partitionId()}" if name else ""
    client = PulsarClient(options.address.service_url, options.address.login)
    try:
        writer = TopicWriter(client, columns, options, producer_name, batch_id)
        pace = Pace(options.messages_per_second)
        for message in writer.in_order(batches):
            writer.write(message)
            if pace.is_due():
                writer.flush()
                pace.wait()
        return writer.finish()
    finally:
        client.close()
        relieve_worker()


def _property(context: TaskContext, name: str) -> str:
    """Returns a local property of the task. Raises SendFailed when the property is not set. A guessed value could make
    the broker take new rows for repeated rows."""
    value = context.getLocalProperty(name)
    if not value:
        raise SendFailed(f"Spark does not say which batch it writes: its task has no property {name}")
    return value


class Pace:
    """Keeps a task to `per_second` messages a second (0: no limit) by pauses after every tenth of a second's
    messages."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._step = max(1, per_second // 10)
        self._began = time.monotonic()
        self._written = 0

    def is_due(self) -> bool:
        """The caller asks this after each message. If the answer is True, the caller flushes and then calls `wait`."""
        self._written += 1
        return self._per_second > 0 and self._written % self._step == 0

    def wait(self) -> None:
        """Sleeps for as long as the task is ahead of its rate."""
        ahead = self._written / self._per_second - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)


class TopicWriter:
    """Spreads rows over topics and their partitions, with one producer for each partition."""

    def __init__(
        self, client: PulsarClient, columns: StructType, options: WriteOptions, producer_name: str, batch_id: int
    ) -> None:
        self._client = client
        self._name = producer_name
        self._batch_id = batch_id
        self._options = options
        existing = client.persist(lambda: client.schema(options.topic)) if options.topic else None
        self._outgoing = MessageBuilder(columns, options.topic, existing)
        self._partitions: dict[str, list[str]] = {}
        self._producers: dict[str, PartitionProducer] = {}
        self._rows = 0

    def in_order(self, batches: Iterable[pa.RecordBatch]) -> Iterable[OutgoingMessage]:
        """Returns the messages of all rows. With the option `rowOrder=sorted` the messages are sorted by content, so
        that a repeated batch has the same order even after a shuffle."""
        messages: Iterable[OutgoingMessage] = (
            message for batch in batches for message in self._outgoing.messages(batch)
        )
        if self._options.sorted_rows:
            messages = sorted(messages, key=_sort_key)
        return by_key(messages) if self._options.key_batches else messages

    def write(self, message: OutgoingMessage) -> None:
        """Hands one message to its partition's producer. Raises SendFailed, also for an earlier message."""
        row = self._rows
        if row >= ROWS_OF_A_TASK_MAX:
            raise SendFailed(f"a task writes more than {ROWS_OF_A_TASK_MAX} rows: use more partitions")
        self._rows = row + 1
        self._producer(self._route(message, row)).send(message, self._batch_id * ROWS_OF_A_TASK_MAX + row)

    def _route(self, message: OutgoingMessage, row: int) -> str:
        """Returns the partition for a row. A row with a key goes to the partition that Java's clients choose by the
        key's hash. Rows without a key go to each partition in turn, for the length of a batch. Both rules depend on the
        row alone, so every attempt of the task chooses the same partition."""
        partitions = self._partitions.get(message.topic)
        if partitions is None:
            topic = message.topic
            partitions = self._client.persist(lambda: self._client.partitions(topic, create=True))
            self._partitions[topic] = partitions
        if message.partition is not None:
            if not 0 <= message.partition < len(partitions):
                raise SendFailed(f"{message.topic} has no partition {message.partition}, it has {len(partitions)}")
            return partitions[message.partition]
        if len(partitions) == 1:
            return partitions[0]
        if message.key is not None:
            return partitions[java_string_hash(message.key) % len(partitions)]
        return partitions[row // self._options.batch_messages % len(partitions)]

    def _producer(self, partition: str) -> PartitionProducer:
        known = self._producers.get(partition)
        if known is None:
            options = self._options
            settings = ProducerSettings(
                options.compression,
                options.batch_messages,
                options.send_timeout_seconds,
                options.key_batches,
                options.chunking,
            )
            known = PartitionProducer(self._client, partition, self._name, self._outgoing.schema, settings)
            self._producers[partition] = known
            self._check_batch(known)
        return known

    def _check_batch(self, producer: PartitionProducer) -> None:
        """Raises SendFailed when the producer's name has written a later batch than this one. In that case the name
        belongs to another query, and the broker would take all of our rows for duplicates."""
        written = producer.last_sequence_id // ROWS_OF_A_TASK_MAX
        if self._name and producer.last_sequence_id >= 0 and written > self._batch_id:
            raise SendFailed(
                f"producer {self._name} has written batch {written} to {producer.topic} already, this is batch "
                f"{self._batch_id}: a query with a new checkpoint needs a new producerName"
            )

    def flush(self) -> None:
        """Returns when the broker has stored everything that was written."""
        for producer in self._producers.values():
            producer.flush()

    def finish(self) -> WrittenRows:
        """Flushes and closes the producers; returns the task's report."""
        self.flush()
        skipped = sum(producer.skipped for producer in self._producers.values())
        for producer in self._producers.values():
            producer.close()
        return WrittenRows(self._rows, skipped, sorted(self._partitions))


def _sort_key(message: OutgoingMessage) -> tuple[object, ...]:
    topic, key, event_time, properties, value, ordering_key, partition = message
    place = -1 if partition is None else partition
    return topic, key or b"", event_time, properties, value is not None, value or b"", ordering_key or b"", place


def by_key(messages: Iterable[OutgoingMessage]) -> Iterator[OutgoingMessage]:
    """Yields the messages with those of one key behind each other, so that they fill batches of one key. Messages are
    held back for that, up to KEY_ROWS or KEY_BYTES. The order of a key's messages stays, and the same messages are
    always yielded in the same order, so repeated rows have their sequence ids again."""
    groups: dict[bytes, list[OutgoingMessage]] = {}
    rows = size = 0
    for message in messages:
        groups.setdefault(message.batching_key, []).append(message)
        rows, size = rows + 1, size + len(message.value or b"")
        if rows >= KEY_ROWS or size >= KEY_BYTES:
            yield from chain.from_iterable(groups.values())
            groups.clear()
            rows = size = 0
    yield from chain.from_iterable(groups.values())


def java_string_hash(key: bytes) -> int:
    """Returns what org.apache.pulsar.client.impl.JavaStringHash makes of a key: String.hashCode without the sign. A key
    that is not UTF-8 is hashed as its base64 text, because such a key is sent as base64."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = base64.b64encode(key).decode()
    data = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(data), 2):
        value = (value * 31 + (data[at] << 8 | data[at + 1])) & 0xFFFF_FFFF
    return value & 0x7FFF_FFFF
