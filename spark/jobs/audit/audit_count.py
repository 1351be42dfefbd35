"""Gets the audit's facts from the messages themselves: counts all messages through the data source, or reads the
message that has waited longest for its acknowledgement."""

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.jobs.job_arguments import service_options
from magnetar.spark.jobs.job_session import session
from magnetar.spark.source.client.partition_reader import PartitionReader, ReaderSettings
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import Options, address_of
from magnetar.spark.source.ranges.bounds import Bound
from pulsar_proto.pb import pulsar_api_pb2 as pb

LOOK_SECONDS = 10.0
COUNTED = "topic string, entries bigint, messages bigint, bytes bigint"


@dataclass(frozen=True, slots=True)
class TopicCount:
    """The numbers of entries and messages in one partition or non-partitioned topic. `bytes` is the size of the
    messages' values before compression."""

    entries: int
    messages: int
    bytes: int


def oldest_unacknowledged_ms(service: Mapping[str, str], topic: str, mark_delete: str) -> int | None:
    """Returns the publish time, in milliseconds since the epoch, of the first message behind a mark-delete position.
    Returns None when no message comes. That message is unacknowledged, because otherwise the mark-delete position would
    have moved past it."""
    address = address_of(Options(service))
    client = PulsarClient(address.service_url, address.login)
    ledger, _, entry = mark_delete.partition(":")
    reader = PartitionReader(client, topic, Bound(int(ledger), int(entry)), ReaderSettings("audit", 1))
    try:
        entries = reader.read(time.monotonic() + LOOK_SECONDS)
        return int(entries[0][2].publish_time) if entries else None
    finally:
        reader.close()
        client.close()


def count_messages(arguments: Namespace, topics: Sequence[str]) -> dict[str, TopicCount]:
    """Counts all messages of the topics by a Spark query. Raises Spark's error with a DataLoss in it when an entry is
    missing."""
    if not topics:
        return {}
    spark = session(arguments, "audit")
    options = service_options(arguments) | {"topics": ",".join(topics), "allowDifferentTopicSchemas": "true"}
    frame = spark.read.format("pulsar").options(**options).load()
    sizes = frame.select(
        F.col("__topic").alias("topic"), F.col("__messageId").alias("id"), F.length("value").alias("size")
    )
    totals: dict[str, list[int]] = {}
    for topic, *numbers in sizes.mapInArrow(_count, COUNTED).collect():  # a row for each task and topic
        totals[topic] = [sum(pair) for pair in zip(totals.get(topic, (0, 0, 0)), numbers, strict=True)]
    return {topic: TopicCount(*numbers) for topic, numbers in totals.items()}


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields a row for each topic among one task's messages. An entry is counted at the first message of its batch."""
    totals: dict[str, list[int]] = {}
    for batch in batches:
        for topic, message_id, size in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found = totals.setdefault(topic, [0, 0, 0])
            found[0] += pb.MessageIdData.FromString(message_id).batch_index <= 0
            found[1] += 1
            found[2] += size or 0
    columns = [list(totals), *([found[at] for found in totals.values()] for at in range(3))]
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=["topic", "entries", "messages", "bytes"])
