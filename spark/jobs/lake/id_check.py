"""Finds out from the message ids in a table's rows which messages the table has twice, and which messages it lacks.

Entry ids have no gaps inside a ledger and begin at 0, and a batch has the indexes from 0 to its size minus one. An
entry may be missing between two rows for a good reason: it may be a chunk of a large message or a marker. So `lacking`
reads the topic again at each such place.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.source.client.partition_reader import PartitionReader
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.columns.metadata_columns import MESSAGE_ID, TOPIC
from magnetar.spark.source.decoding.entry_block import CorruptEntry
from magnetar.spark.source.decoding.row_decoder import DecodedRows, RowDecoder
from magnetar.spark.source.planner import partition_of
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb

PARSED = "topic string, ledger long, entry long, index int, size int"
HOLES_MAX = 100
"""At most this many holes are looked into. A table with more holes is wrong anyway, or has an unusual topic."""
ANSWER_SECONDS = 5.0
ALL = Range(BEFORE_ALL, Bound(2**62, 0))


@dataclass(frozen=True, slots=True)
class Hole:
    """The entries `first` to `last` of a ledger, some of whose messages the table lacks: the table has only `rows`
    messages of these entries."""

    topic: str
    ledger: int
    first: int
    last: int
    rows: int = 0

    def __str__(self) -> str:
        entries = f"{self.first}" if self.first == self.last else f"{self.first}…{self.last}"
        return f"{self.topic} {self.ledger}:{entries}"


@dataclass(slots=True)
class TableIds:
    """The result of looking at the ids of a table's rows: how many rows there are, how many rows repeat a message, and
    which holes are between the rows. `begins` has the first message of each topic partition."""

    rows: int = 0
    twice: int = 0
    holes: list[Hole] = field(default_factory=list)
    begins: dict[str, Bound] = field(default_factory=dict)


def look_at(rows: DataFrame, *, cut: bool) -> TableIds:
    """Returns what the ids of the rows tell about repeated and missing messages. The rows have the columns TOPIC and
    MESSAGE_ID. If `cut` is true, messages that are missing in the first entry of a partition are not reported, because
    the rows may begin in the middle of a batch."""
    parsed = rows.select(TOPIC, MESSAGE_ID).mapInArrow(_parse, PARSED)
    by_entry = parsed.groupBy("topic", "ledger", "entry").agg(
        F.count("*").alias("rows"),
        F.countDistinct("index").alias("different"),
        F.min("index").alias("index"),
        F.max("size").alias("size"),
    )
    # a task looks at one ledger: a topic may have more entries than one task should sort
    order = Window.partitionBy("topic", "ledger").orderBy("entry")
    found = by_entry.withColumn("before", F.lag("entry").over(order)).persist()
    try:
        sums = found.agg(F.sum("rows"), F.sum(F.col("rows") - F.col("different"))).first()
        assert sums is not None
        ids = TableIds(sums[0] or 0, sums[1] or 0)
        for row in found.where("before is null").orderBy("topic", "ledger").collect():  # a row for each ledger
            begins = row.topic not in ids.begins
            if begins:
                ids.begins[row.topic] = Bound(row.ledger, row.entry, row["index"])
            ids.holes += _holes_at(row, row.entry if begins else 0, may_be_cut=cut and begins)
        inside = found.where("entry > before + 1 or (before is not null and different < size)")
        for row in inside.limit(HOLES_MAX).collect():
            ids.holes += _holes_at(row, row.before + 1, may_be_cut=False)
        del ids.holes[HOLES_MAX:]
        return ids
    finally:
        found.unpersist()


def _holes_at(row: Row, expected: int, *, may_be_cut: bool) -> Iterator[Hole]:
    """Yields the holes before an entry and in it. `expected` is the entry that comes next after the one before."""
    if row.entry > expected:
        yield Hole(row.topic, row.ledger, expected, row.entry - 1)
    if row.different < row.size and not may_be_cut:
        yield Hole(row.topic, row.ledger, row.entry, row.entry, row.different)


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields topics and parsed ids. A message that is not in a batch has `index` 0 and `size` 0."""
    for batch in batches:
        parsed = [pb.MessageIdData.FromString(each) for each in batch.column(1).to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [
                batch.column(0),
                pa.array([signed64(each.ledgerId) for each in parsed], pa.int64()),
                pa.array([signed64(each.entryId) for each in parsed], pa.int64()),
                pa.array([max(each.batch_index, 0) for each in parsed], pa.int32()),
                pa.array([each.batch_size for each in parsed], pa.int32()),
            ],
            names=["topic", "ledger", "entry", "index", "size"],
        )


def lacking(client: PulsarClient, holes: Sequence[Hole]) -> list[Hole]:
    """Returns the holes for which the topic still has messages that the table lacks."""
    return [hole for hole in holes if _topic_has_more(client, hole)]


def _topic_has_more(client: PulsarClient, hole: Hole) -> bool:
    reader = PartitionReader(client, hole.topic, Bound(hole.ledger, hole.first - 1))
    decoder, rows = RowDecoder(hole.topic, partition_of(hole.topic), ALL), DecodedRows()
    try:
        while True:
            entries = reader.read(time.monotonic() + ANSWER_SECONDS)
            for entry in entries:
                if entry[:2] > (hole.ledger, hole.last):
                    return False
                decoder.decode(entry, rows)
                if len(rows) > hole.rows:
                    return True
            if not entries:
                return False
    except (CorruptEntry, TopicNotFound):
        return False
    finally:
        reader.close()


def began_before(begins: Mapping[str, Bound], committed: Mapping[str, Bound]) -> list[str]:
    """Returns a sentence for each partition whose first new message had been committed already before this run."""
    return [
        f"{topic} {begin} was read before and is in the table twice"
        for topic, begin in begins.items()
        if begin <= committed.get(topic, BEFORE_ALL)
    ]
