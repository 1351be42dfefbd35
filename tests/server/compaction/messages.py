"""Entries as producers make them, and a slow twin of compaction for comparison."""

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from magnetar.server.compaction.compaction_rules import LatestMessages
from magnetar.server.compaction.stored_entry import ChangedBatch, StoredEntry, open_entry
from magnetar.server.process.turns import Turns
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress, decompress
from pulsar_proto.records.payload import body, build_batch, build_payload, parse_metadata, split_batch
from pulsar_proto.wire.framing import MAX_MESSAGE_SIZE
from tests.server.steps import finish

T = TypeVar("T")


class Sent(NamedTuple):
    """A message. One without a value deletes its key; one without a key is kept or dropped by configuration."""

    key: str | None
    value: bytes


def metadata(**values: object) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **values)  # type: ignore[arg-type]


def single(message: Sent) -> bytes:
    head = metadata(uncompressed_size=len(message.value))
    if message.key is not None:
        head.partition_key = message.key
    return build_payload(head, message.value)


def batch(messages: Sequence[Sent], compression: pb.CompressionType.ValueType = pb.NONE) -> bytes:
    singles = []
    for message in messages:
        head = pb.SingleMessageMetadata(payload_size=0)
        if message.key is not None:
            head.partition_key = message.key
        singles.append((head, message.value))
    plain = build_batch(singles)
    head_of_all = metadata(num_messages_in_batch=len(messages), compression=compression, uncompressed_size=len(plain))
    return build_payload(head_of_all, compress(compression, plain))


def contents(payload: bytes) -> list[tuple[int, Sent]]:
    """Returns (batch index, message) for each message that a consumer sees in an entry."""
    head = parse_metadata(payload)
    if not head.HasField("num_messages_in_batch"):
        return [(0, Sent(head.partition_key if head.HasField("partition_key") else None, body(payload)))]
    plain = decompress(head.compression, body(payload), head.uncompressed_size)
    messages = split_batch(plain, head.num_messages_in_batch)
    return [
        (index, Sent(each.partition_key if each.HasField("partition_key") else None, value))
        for index, (each, value) in enumerate(messages)
        if not each.compacted_out
    ]


def last_of_each_key(messages: Sequence[tuple[object, Sent]], retain_null_key: bool) -> list[tuple[object, Sent]]:
    """The slow twin of compaction: returns the (place, message) pairs that stay, in order."""
    left = []
    for at, (place, message) in enumerate(messages):
        if message.key is None:
            if retain_null_key:
                left.append((place, message))
        elif message.value and all(later.key != message.key for _, later in messages[at + 1 :]):
            left.append((place, message))
    return left


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits, such as the work on small entries, and returns its result."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result


def opened(payload: bytes) -> StoredEntry:
    return at_once(open_entry(payload, MAX_MESSAGE_SIZE, Turns()))


def compact(placed: Sequence[tuple[Position, bytes]], latest: LatestMessages) -> list[tuple[Position, bytes]]:
    """Passes the entries through both phases of compaction, and returns what is kept with its positions."""
    for position, payload in placed:
        finish(latest.see(position, opened(payload)))
    left = []
    for position, payload in placed:
        kept = finish(latest.kept(position, opened(payload)))
        if kept is not None:
            left.append((position, at_once(kept.payload()) if isinstance(kept, ChangedBatch) else kept))
    return left
