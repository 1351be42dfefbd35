"""The check at the end of `replay`: the run has copied each message of the range exactly once, and no other message.

The check is one aggregation in Spark, so that the driver holds four numbers, however many messages there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.source.ranges.bounds import Bound, Range, bound_of
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

SOURCE_TOPIC, SOURCE_ID, RUN_ID = "src_topic", "src_mid", "run_id"
PLACED = "topic string, id string, place int"
BEFORE, INSIDE, BEHIND = -1, 0, 1


@dataclass(frozen=True, slots=True)
class CopyPlaces:
    """Says whether the sources of copies are before, inside or behind the range. The object is pickled to the
    executors."""

    ranges: dict[str, tuple[Bound, Bound]]

    @staticmethod
    def of(ranges: Mapping[str, Range]) -> "CopyPlaces":
        return CopyPlaces({name: (Bound(*each.after), Bound(*each.upto)) for name, each in ranges.items()})

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes the columns `topic` and `id` (MessageIdData in hexadecimal) and yields the columns PLACED."""
        for batch in batches:
            rows = batch.to_pylist()
            places = pa.array([self.place(row["topic"], row["id"]) for row in rows], pa.int32())
            yield pa.RecordBatch.from_arrays([*batch.columns, places], names=["topic", "id", "place"])

    def place(self, topic: str, text: str) -> int:
        if topic not in self.ranges:
            return BEHIND
        after, upto = self.ranges[topic]
        found = bound_of(pb.MessageIdData.FromString(bytes.fromhex(text)))
        return BEFORE if found <= after else INSIDE if found <= upto else BEHIND


class CopyCheck(NamedTuple):
    """Counts of messages. `asked` counts the messages of the range that the source holds now. Of these, `missing` have
    no copy and `repeated` have several copies. `outside` counts copied messages that are not among the `asked`
    messages."""

    asked: int
    missing: int
    repeated: int
    outside: int


def compare(asked: DataFrame, copies: DataFrame, ranges: Mapping[str, Range], *, ignore_before: bool) -> CopyCheck:
    """Compares the messages of a range, in the columns `topic` and `id`, with their copies, whose properties name their
    source. `ignore_before` leaves out copies of messages before the range: when dead letters are replayed, earlier runs
    under this run's name made those copies."""
    properties = F.col("__messageProperties")
    sources = copies.select(properties[SOURCE_TOPIC].alias("topic"), properties[SOURCE_ID].alias("id"))
    placed = sources.mapInArrow(CopyPlaces.of(ranges).__call__, PLACED)
    if ignore_before:
        placed = placed.where(F.col("place") != BEFORE)
    nothing, one = F.lit(0), F.lit(1)
    both = asked.select("topic", "id", one.alias("asked"), nothing.alias("copies")).unionByName(
        placed.select("topic", "id", nothing.alias("asked"), one.alias("copies"))
    )
    by_id = both.groupBy("topic", "id").agg(F.max("asked").alias("asked"), F.sum("copies").alias("copies"))
    is_asked, count = F.col("asked") == 1, F.col("copies")
    (row,) = by_id.agg(
        F.count_if(is_asked),
        F.count_if(is_asked & (count == 0)),
        F.count_if(is_asked & (count > 1)),
        F.count_if(~is_asked),
    ).collect()
    return CopyCheck(*row)


def without_repeats(topics: Iterable[str]) -> list[str]:
    """Returns the topics without those partitions whose partitioned topic is among the topics, too."""
    names = {topic: TopicName.parse(topic) for topic in topics}
    return sorted(topic for topic, name in names.items() if name.partition_index < 0 or name.base.full not in names)
