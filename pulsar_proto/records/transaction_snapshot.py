"""Snapshots of a topic's transactions: which transactions were aborted, and from where on the log has to be read again.

The three records are Avro: a snapshot in one piece, and a snapshot in segments, which consists of an index and of
segments with aborted ids. Fields stand in alphabetical order, because Apache derives the schemas from Java classes.
Encoding and decoding are generators that yield where other work may run, because a snapshot may name a million
transactions; fastavro takes 600 ms at a stretch for a hundred thousand.

Sources: TransactionBufferSnapshot, TransactionBufferSnapshotIndexes, TransactionBufferSnapshotSegment; the bytes that a
broker of 4.0.7 wrote are in `tests/vectors`.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple, TypeVar

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position, TxnId

T = TypeVar("T")
Steps = Generator[None, None, T]

ITEMS_A_STEP = 500
"""How many items of a list are encoded or decoded before other work may run."""

_PACKAGE = "org.apache.pulsar.broker.transaction.buffer.metadata"
_LIST = ',"java-class":"java.util.List"}'
_TOPIC_NAME = '{"name":"topicName","type":["null","string"],"default":null}'
_TXN_IDS = (
    '["null",{"type":"array","items":{"type":"record","name":"TxnIDData","fields":['
    '{"name":"leastSigBits","type":"long"},{"name":"mostSigBits","type":"long"}]}' + _LIST + "]"
)
SNAPSHOT_SCHEMA = (
    '{"type":"record","name":"TransactionBufferSnapshot","namespace":"' + _PACKAGE + '","fields":[{"name":"aborts",'
    '"type":["null",{"type":"array","items":{"type":"record","name":"AbortTxnMetadata","fields":['
    '{"name":"entryId","type":"long"},{"name":"ledgerId","type":"long"},{"name":"txnIdLeastBits","type":"long"},'
    '{"name":"txnIdMostBits","type":"long"}]}' + _LIST + '],"default":null},'
    '{"name":"maxReadPositionEntryId","type":"long"},{"name":"maxReadPositionLedgerId","type":"long"},'
    + _TOPIC_NAME
    + "]}"
).encode()
SEGMENT_SCHEMA = (
    '{"type":"record","name":"TransactionBufferSnapshotSegment","namespace":"' + _PACKAGE + '.v2","fields":['
    '{"name":"aborts","type":' + _TXN_IDS + ',"default":null},{"name":"persistentPositionEntryId","type":"long"},'
    '{"name":"persistentPositionLedgerId","type":"long"},{"name":"sequenceId","type":"long"},' + _TOPIC_NAME + "]}"
).encode()
INDEXES_SCHEMA = (
    '{"type":"record","name":"TransactionBufferSnapshotIndexes","namespace":"' + _PACKAGE + '.v2","fields":['
    '{"name":"indexList","type":["null",{"type":"array","items":{"type":"record",'
    '"name":"TransactionBufferSnapshotIndex","fields":[{"name":"abortedMarkEntryID","type":"long"},'
    '{"name":"abortedMarkLedgerID","type":"long"},{"name":"segmentEntryID","type":"long"},'
    '{"name":"segmentLedgerID","type":"long"},{"name":"sequenceID","type":"long"}]}' + _LIST + '],"default":null},'
    '{"name":"snapshot","type":["null",{"type":"record","name":"TransactionBufferSnapshotIndexesMetadata","fields":['
    '{"name":"aborts","type":' + _TXN_IDS + ',"default":null},{"name":"maxReadPositionEntryId","type":"long"},'
    '{"name":"maxReadPositionLedgerId","type":"long"}]}],"default":null},' + _TOPIC_NAME + "]}"
).encode()


class AbortedTxn(NamedTuple):
    """A transaction that was aborted, and the position of the marker that says so."""

    txn_id: TxnId
    marker: Position


class Snapshot(NamedTuple):
    """A snapshot in one piece (TransactionBufferSnapshot). The log has to be read again behind `max_read_position`."""

    topic: str
    aborts: Sequence[AbortedTxn]
    max_read_position: Position


class Segment(NamedTuple):
    """Aborted transactions whose markers stand at or before `last_marker` (TransactionBufferSnapshotSegment)."""

    topic: str
    sequence_id: int
    aborts: Sequence[TxnId]
    last_marker: Position


class SegmentPlace(NamedTuple):
    """A segment as the index names it (TransactionBufferSnapshotIndex)."""

    sequence_id: int
    last_marker: Position
    stored_at: Position
    """Where the segment stands in the topic of segments."""


class Indexes(NamedTuple):
    """The index of a snapshot in segments (TransactionBufferSnapshotIndexes). `aborts` are the transactions that are in
    no segment yet."""

    topic: str
    segments: Sequence[SegmentPlace]
    aborts: Sequence[TxnId]
    max_read_position: Position


def encode_snapshot(snapshot: Snapshot) -> Steps[bytes]:
    out = bytearray()
    aborts = snapshot.aborts
    yield from _put_list(out, len(aborts), ((*reversed(marker), *reversed(txn_id)) for txn_id, marker in aborts))
    _put_longs(out, reversed(snapshot.max_read_position))
    _put_text(out, snapshot.topic)
    return bytes(out)


def decode_snapshot(value: bytes) -> Steps[Snapshot]:
    """Raises MalformedRecord."""
    reader = _Reader(value)
    aborts = yield from reader.items(
        lambda entry_id, ledger_id, least, most: AbortedTxn(TxnId(most, least), Position(ledger_id, entry_id)), 4
    )
    return Snapshot(max_read_position=reader.position(), topic=reader.text(), aborts=aborts)


def encode_segment(segment: Segment) -> Steps[bytes]:
    out = bytearray()
    yield from _put_list(out, len(segment.aborts), map(reversed, segment.aborts))
    _put_longs(out, (*reversed(segment.last_marker), segment.sequence_id))
    _put_text(out, segment.topic)
    return bytes(out)


def decode_segment(value: bytes) -> Steps[Segment]:
    """Raises MalformedRecord."""
    reader = _Reader(value)
    aborts = yield from reader.items(_txn_id, 2)
    return Segment(last_marker=reader.position(), sequence_id=reader.long(), topic=reader.text(), aborts=aborts)


def encode_indexes(indexes: Indexes) -> Steps[bytes]:
    out = bytearray()
    segments = ((*reversed(each.last_marker), *reversed(each.stored_at), each.sequence_id) for each in indexes.segments)
    yield from _put_list(out, len(indexes.segments), segments)
    out.append(2)  # `snapshot` is not null
    yield from _put_list(out, len(indexes.aborts), map(reversed, indexes.aborts))
    _put_longs(out, reversed(indexes.max_read_position))
    _put_text(out, indexes.topic)
    return bytes(out)


def decode_indexes(value: bytes) -> Steps[Indexes]:
    """Raises MalformedRecord. An index without a snapshot has the position before every entry."""
    reader = _Reader(value)
    segments = yield from reader.items(
        lambda marker_entry, marker_ledger, entry, ledger, sequence_id: SegmentPlace(
            sequence_id, Position(marker_ledger, marker_entry), Position(ledger, entry)
        ),
        5,
    )
    aborts: list[TxnId] = []
    max_read_position = Position(-1, -1)
    if reader.is_there():
        aborts = yield from reader.items(_txn_id, 2)
        max_read_position = reader.position()
    return Indexes(reader.text(), segments, aborts, max_read_position)


def _txn_id(least: int, most: int) -> TxnId:
    return TxnId(most, least)


def _put_list(out: bytearray, count: int, items: Iterable[Iterable[int]]) -> Steps[None]:
    """Writes a list that is not null, as one block."""
    out.append(2)
    if count:
        _put_longs(out, (count,))
    for place, item in enumerate(items, 1):
        _put_longs(out, item)
        if place % ITEMS_A_STEP == 0:
            yield
    out.append(0)


def _put_longs(out: bytearray, values: Iterable[int]) -> None:
    for value in values:
        left = (value << 1) ^ (value >> 63)
        while left > 0x7F:
            out.append(left & 0x7F | 0x80)
            left >>= 7
        out.append(left)


def _put_text(out: bytearray, text: str) -> None:
    encoded = text.encode()
    out.append(2)
    _put_longs(out, (len(encoded),))
    out += encoded


class _Reader:
    """Reads the fields of a record one after another. Raises MalformedRecord when the bytes end too early."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._at = 0

    def long(self) -> int:
        found = shift = 0
        value, at = self._value, self._at
        try:
            while (byte := value[at]) > 0x7F:
                found |= (byte & 0x7F) << shift
                shift += 7
                at += 1
        except IndexError:
            raise MalformedRecord("a snapshot of transactions ends too early") from None
        if shift > 63:
            raise MalformedRecord("a number in a snapshot of transactions is too long")
        self._at = at + 1
        found |= byte << shift
        return (found >> 1) ^ -(found & 1)

    def position(self) -> Position:
        entry_id = self.long()
        return Position(self.long(), entry_id)

    def is_there(self) -> bool:
        """Returns whether a field that may be null is not null."""
        branch = self.long()
        if branch not in (0, 1):
            raise MalformedRecord(f"a snapshot of transactions has a field of kind {branch}")
        return branch == 1

    def text(self) -> str:
        if not self.is_there():
            return ""
        size = self.long()
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._value):
            raise MalformedRecord("a text in a snapshot of transactions reaches beyond its end")
        try:
            return self._value[start : self._at].decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord("a text in a snapshot of transactions is not UTF-8") from error

    def items(self, make: Callable[..., T], numbers: int) -> Steps[list[T]]:
        """Reads a list of records that consist of so many numbers. Null counts as the empty list."""
        found: list[T] = []
        if not self.is_there():
            return found
        while count := self.long():
            if count < 0:  # the block says how many bytes it has, too
                count = -count
                self.long()
            for _ in range(count):
                found.append(make(*[self.long() for _ in range(numbers)]))
                if len(found) % ITEMS_A_STEP == 0:
                    yield
        return found
