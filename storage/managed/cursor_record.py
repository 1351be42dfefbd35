"""The stored forms of a cursor: PositionInfo in its cursor ledger, ManagedCursorInfo in its node (docs/CURSORS.md).

Both are written as Apache's broker writes them by default: acknowledged ranges one by one (field 3 of PositionInfo, 4
of the node), in order. Apache's broker stores at most `managed_ledger_max_unacked_ranges_to_persist` ranges and forgets
the others. When there are more, this broker instead writes all ranges into PositionInfo as bitmaps (field 6), which
every broker since 3.3 reads. A state that does not fit into an entry is split (`cursor_parts`).

All these forms can be read. Half-acknowledged batches are also read from the node, which Apache's broker does not do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from google.protobuf.unknown_fields import UnknownFieldSet
from pyroaring import BitMap

from magnetar.storage.managed.ack_sets import words_of_mask
from magnetar.storage.managed.ack_state import AckState, Extents
from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END
from magnetar.storage.managed.bitmap_words import bitmap_of_words, words_of_bitmap
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.records.managed_record import parse_managed_cursor_info, parse_position_info
from pulsar_proto.varint import varint

NO_LEDGER = -1
"""The cursorsLedgerId of a node that holds the whole state itself."""

PARTIAL_WORDS_MAX = 190_000
"""How many words of half-acknowledged batches a record holds, of at most 11 bytes each. Beyond that the indexes are
delivered again after a crash. Ten thousand batches of a thousand messages have 160,000 words."""

_RANGES_OF_POSITION = 0x1A
_RANGES_OF_NODE = 0x22
_SINGLE = tuple(bytes((low,)) for low in range(128))
_MORE = tuple(bytes((low | 0x80,)) for low in range(128))


@dataclass(frozen=True, slots=True)
class StoredAcks:
    """The content of a record. `partial` has the BitSet words of each half-acknowledged batch, 1 = still to be
    consumed."""

    mark_delete: Position
    acked: Mapping[int, BitMap] = field(default_factory=dict)
    partial: Sequence[tuple[Position, Sequence[int]]] = ()
    properties: Mapping[str, int] = field(default_factory=dict)
    parts_before: int = 0
    """How many entries before this one hold the rest of the state."""
    part: bytes = b""
    """The bitmaps in an entry that is only a part (see `cursor_parts`); empty for all other entries."""

    @property
    def is_plain(self) -> bool:
        return not self.acked and not self.partial


@dataclass(frozen=True, slots=True)
class CursorNode:
    """A parsed ManagedCursorInfo, the node of a cursor in the metadata store. `extra` has the fields that we do not
    know, serialised."""

    ledger_id: int
    acks: StoredAcks
    cursor_properties: Mapping[str, str]
    last_active_ms: int = 0
    """When the cursor was used last, as of the last write of the node; 0 when the node does not say."""
    extra: bytes = b""


def encode_position(
    acks: AckState, mark_delete: Position, properties: Mapping[str, int], config: ManagedLedgerConfig
) -> bytes:
    """Returns a PositionInfo with `mark_delete` and the acknowledgements beyond it. For large states see
    `cursor_parts`."""
    if acks.is_plain and not properties:
        return encode_head(mark_delete)
    ranges_max = config.managed_ledger_max_unacked_ranges_to_persist
    middle = encode_middle(acks, properties, config)
    if config.managed_ledger_persist_individual_ack_as_long_array or acks.number_of_ranges > ranges_max:
        return encode_head(mark_delete) + middle + encode_words(acks.bitmaps())
    return encode_head(mark_delete) + _encode_ranges(_RANGES_OF_POSITION, acks) + middle


def encode_head(mark_delete: Position) -> bytes:
    """Returns the position of a PositionInfo. `encode_middle`, `encode_words` and `encode_parts_before` may follow."""
    return b"\x08" + varint(mark_delete.ledger_id) + b"\x10" + varint(mark_delete.entry_id)


def encode_words(bitmaps: Iterable[tuple[int, BitMap]]) -> bytes:
    """Returns field 6 of a PositionInfo."""
    part = pb.PositionInfo()
    for ledger_id, bitmap in bitmaps:
        part.individualDeletedMessageRanges.add(key=ledger_id, values=words_of_bitmap(bitmap))
    return part.SerializePartialToString()


def encode_middle(acks: AckState | None, properties: Mapping[str, int], config: ManagedLedgerConfig) -> bytes:
    """Returns the properties and half-acknowledged batches of a PositionInfo."""
    middle = pb.PositionInfo()
    if acks is not None:
        _add_partial(middle, acks, config.managed_ledger_max_batch_deleted_index_to_persist)
    for name, number in properties.items():
        middle.properties.add(name=name, value=number)
    return middle.SerializePartialToString()


def encode_parts_before(parts: int) -> bytes:
    return pb.PositionInfo(partsBefore=parts).SerializePartialToString()


def encode_node(
    ledger_id: int,
    mark_delete: Position,
    properties: Mapping[str, int],
    cursor_properties: Mapping[str, str],
    *,
    last_active_ms: int,
    extra: bytes = b"",
    acks: AckState | None = None,
) -> bytes:
    """Returns a ManagedCursorInfo. `acks` is given when no cursor ledger is in use, so that the node has to hold the
    whole state."""
    head = pb.ManagedCursorInfo(
        cursorsLedgerId=ledger_id, markDeleteLedgerId=mark_delete.ledger_id, markDeleteEntryId=mark_delete.entry_id
    )
    tail = pb.ManagedCursorInfo(lastActive=last_active_ms)
    for name, value in properties.items():
        tail.properties.add(name=name, value=value)
    for name, text in cursor_properties.items():
        tail.cursorProperties.add(name=name, value=text)
    ranges = b""
    if acks is not None:
        ranges = _encode_ranges(_RANGES_OF_NODE, acks)
        _add_partial(tail, acks, len(acks.partial))
    return head.SerializeToString() + ranges + tail.SerializePartialToString() + extra


def parse_position(payload: bytes, extents: Extents) -> StoredAcks:
    """Reads a PositionInfo. Raises MalformedRecord."""
    info = parse_position_info(payload)
    acked = _acked(info.individualDeletedMessages, extents)
    for words in info.individualDeletedMessageRanges:
        acked[words.key] = acked.get(words.key, BitMap()) | bitmap_of_words(words.values)
    return StoredAcks(
        Position(info.ledgerId, info.entryId),
        acked,
        _partial(info.batchedEntryDeletionIndexInfo),
        {item.name: item.value for item in info.properties},
        info.partsBefore,
        info.part,
    )


def parse_node(value: bytes, extents: Extents) -> CursorNode:
    """Reads a ManagedCursorInfo. The position in a node is optional; without a position the cursor stands before all
    entries. Raises MalformedRecord."""
    info = parse_managed_cursor_info(value)
    position = Position(-1, -1)
    if info.HasField("markDeleteLedgerId"):
        position = Position(info.markDeleteLedgerId, info.markDeleteEntryId)
    acks = StoredAcks(
        position,
        _acked(info.individualDeletedMessages, extents),
        _partial(info.batchedEntryDeletionIndexInfo),
        {item.name: item.value for item in info.properties},
    )
    ledger_id, last_active_ms = info.cursorsLedgerId, max(0, info.lastActive)
    cursor_properties = {item.name: item.value for item in info.cursorProperties}
    extra = _unknown_fields(info) if len(UnknownFieldSet(info)) else b""
    return CursorNode(ledger_id, acks, cursor_properties, last_active_ms, extra)


def _unknown_fields(info: pb.ManagedCursorInfo) -> bytes:
    """Returns the fields that we do not know, serialised, and removes all others from the node."""
    info.ClearField("cursorsLedgerId")
    info.ClearField("markDeleteLedgerId")
    info.ClearField("markDeleteEntryId")
    info.ClearField("individualDeletedMessages")
    info.ClearField("properties")
    info.ClearField("lastActive")
    info.ClearField("batchedEntryDeletionIndexInfo")
    info.ClearField("cursorProperties")
    return info.SerializePartialToString()


def _acked(stored: Iterable[pb.MessageRange], extents: Extents) -> dict[int, BitMap]:
    """Returns the ranges as bitmaps. A range may span ledgers (managedLedgerUnackedRangesOpenCacheSetEnabled=false in
    Apache's broker); then it covers all entries that exist in between."""
    acked: dict[int, BitMap] = {}
    for item in stored:
        lower, upper = item.lowerEndpoint, item.upperEndpoint
        ledger_id: int | None = lower.ledgerId
        first = lower.entryId + 1
        while ledger_id is not None and ledger_id < upper.ledgerId:
            last = extents.last_entry(ledger_id)
            if last is not None and first <= last:
                acked.setdefault(ledger_id, BitMap()).add_range(first, last + 1)
            ledger_id, first = extents.next_ledger(ledger_id), 0
        if ledger_id == upper.ledgerId and 0 <= first <= upper.entryId < ENTRY_ID_END:
            acked.setdefault(ledger_id, BitMap()).add_range(first, upper.entryId + 1)
    return acked


def _partial(stored: Iterable[pb.BatchedEntryDeletionIndexInfo]) -> list[tuple[Position, Sequence[int]]]:
    return [(Position(item.position.ledgerId, item.position.entryId), tuple(item.deleteSet)) for item in stored]


def _add_partial(record: pb.PositionInfo | pb.ManagedCursorInfo, acks: AckState, count_max: int) -> None:
    """Adds at most `count_max` half-acknowledged batches to the record, within PARTIAL_WORDS_MAX. The batches nearest
    to the mark-delete come first."""
    room = PARTIAL_WORDS_MAX
    for ledger_id, entry_id in nsmallest(count_max, acks.partial):
        words = words_of_mask(acks.partial[ledger_id, entry_id])
        room -= len(words)
        if room < 0:
            break
        item = record.batchedEntryDeletionIndexInfo.add(deleteSet=words)
        item.position.ledgerId, item.position.entryId = ledger_id, entry_id


def _encode_ranges(tag: int, acks: AckState) -> bytes:
    """Returns MessageRange fields, encoded by hand: ten thousand of them at once cost some 4 us each by way of
    protobuf's objects."""
    parts: list[bytes] = []
    for ledger_id, firsts, lasts in acks.range_ends():
        ledger = b"\x08" + varint(ledger_id) + b"\x10"
        size = len(ledger)
        lowers = _varints([first - 1 for first in firsts])
        for lower, upper in zip(lowers, _varints(lasts), strict=True):
            low, up = size + len(lower), size + len(upper)
            parts.append(b"%c%c\n%c%b%b\x12%c%b%b" % (tag, low + up + 4, low, ledger, lower, up, ledger, upper))
    return b"".join(parts)


def _varints(values: Sequence[int]) -> list[bytes]:
    """Returns the varint of each value. Values of one or two bytes are looked up, which spares them a call."""
    single, more = _SINGLE, _MORE
    return [
        single[value]
        if 0 <= value < 128
        else more[value & 127] + single[value >> 7]
        if 0 <= value < 16_384
        else varint(value)
        for value in values
    ]
