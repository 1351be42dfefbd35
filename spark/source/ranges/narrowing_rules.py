"""Which part of a topic can hold the rows of a query, by the query's conditions on publish times and message ids.

Publish times are the clocks of producers. They rise along a partition, but not strictly: a message may have been
published a little earlier than the message before it. The broker finds a time by bisection. When no message was
published more than some `disorder` before any earlier message of its partition, all messages behind the place found
for `time - disorder` that matter are there, and nothing behind the place found for `time + disorder` is.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from google.protobuf.message import DecodeError

from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, Range, bound_of
from pulsar_proto.pb import pulsar_api_pb2 as pb

RANGES_MAX = 32
"""When a query asks for messages of more entries of a partition than this, everything from the first of these entries
to the last is read."""


class TimeSpan(NamedTuple):
    """The publish times of messages that a query asks for, in milliseconds since the epoch, both included. None means
    no limit."""

    first: int | None = None
    last: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.first is not None and self.last is not None and self.first > self.last

    def cut(self, other: "TimeSpan") -> "TimeSpan":
        """Returns the times that are in both spans."""
        firsts = [each.first for each in (self, other) if each.first is not None]
        lasts = [each.last for each in (self, other) if each.last is not None]
        return TimeSpan(max(firsts, default=None), min(lasts, default=None))


def from_time(microseconds: int, *, itself: bool) -> TimeSpan:
    """Returns the span of the times after a time, or also of that time `itself`. Messages have whole milliseconds."""
    return TimeSpan(first=-(-microseconds // 1000) if itself else microseconds // 1000 + 1)


def upto_time(microseconds: int, *, itself: bool) -> TimeSpan:
    """Returns the span of the times before a time, or also of that time `itself`."""
    return TimeSpan(last=microseconds // 1000 if itself else -(-microseconds // 1000) - 1)


def entries_of_ids(ids: Iterable[bytes], partition: int) -> list[Bound]:
    """Returns the entries of a partition, in order, that can hold the messages with these ids (bytes of MessageIdData,
    as the column __messageId has them). A message in chunks is found by its first chunk. Bytes that are no id of the
    partition have no entry; `partition` is -1 for a topic without partitions."""
    found = set()
    for data in ids:
        try:
            message_id = pb.MessageIdData.FromString(data)
        except DecodeError:
            continue
        if message_id.partition != partition:
            continue
        first = message_id.first_chunk_message_id if message_id.HasField("first_chunk_message_id") else message_id
        found.add(bound_of(first)._replace(batch_index=WHOLE_ENTRY))
    return sorted(each for each in found if each.ledger >= 0 and each.entry >= 0)


def ranges_of_entries(entries: Collection[Bound], wanted: Range) -> list[Range]:
    """Returns the parts of `wanted` that hold these entries, which are sorted: one part for each entry, or one for all
    of them when they are more than RANGES_MAX."""
    parts = [Range(each.before(), each) for each in entries]
    if len(parts) > RANGES_MAX:
        parts = [Range(parts[0].after, parts[-1].upto)]
    cut = [Range(max(part.after, wanted.after), min(part.upto, wanted.upto)) for part in parts]
    return [part for part in cut if not part.is_empty]
