"""Decides what compaction keeps: for each key the last message, unless that message is empty, which deletes the key.

The compactor passes all messages twice, in the same order. On the first pass `see` notes the position of each key's
last message. On the second pass `kept` returns the part of an entry that stays: the whole entry, a batch with messages
removed, or nothing. Messages without a key are dropped, unless `retain_null_key` is set. Both passes are generators
that yield where other work of the loop may run, because a batch may be long.

Sources: PublishingOrderCompactor, AbstractTwoPhaseCompactor, RawBatchConverter of Pulsar 4.0.7. Two rules differ from
Apache's compactor, which loses messages in both cases: the chunks of a message are kept or dropped together, and an
encrypted batch, whose keys only the consumers can read, is kept as a whole."""

from magnetar.server.compaction.stored_entry import BYTES_A_STEP, MESSAGES_A_STEP, ChangedBatch, EntryKind, StoredEntry
from magnetar.server.process.turns import Steps
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import BatchMessage, body, build_batch
from pulsar_proto.text import raw

_LEDGER_SHIFT = 96
_ENTRY_SHIFT = 32


class LatestMessages:
    """The last message of each key, for one compaction run. This table takes about 200 bytes for each key that is not
    deleted."""

    def __init__(self, *, retain_null_key: bool) -> None:
        self._retain_null_key = retain_null_key
        self._latest: dict[bytes, int] = {}
        """Maps each key to the place of its last message. A place is ledger, entry and batch index packed into one
        number (`_place`)."""
        self._last_chunks: dict[bytes, int] = {}
        """Maps the uuid of each chunked message to the place of the message's last chunk."""
        self.removed = 0
        """How many messages this run will drop, counted by the rules of Apache's compactor."""

    def __len__(self) -> int:
        return len(self._latest)

    # --- the first pass ----------------------------------------------------------------------------------------------

    def see(self, position: Position, entry: StoredEntry) -> Steps[None]:
        """Notes the keys of an entry. An entry that cannot be decoded has no key to note, and `kept` keeps such an
        entry."""
        match entry.kind:
            case EntryKind.MARKER:
                self.removed += 1
            case EntryKind.SINGLE:
                self._see_single(position, entry.metadata, entry.payload)
            case EntryKind.BATCH:
                for index, (single, _) in enumerate(entry.messages):
                    if not single.compacted_out:
                        key = raw(single.partition_key) if single.HasField("partition_key") else None
                        self._note(key, _place(position, index), single.payload_size == 0)
                    if index % MESSAGES_A_STEP == 0:
                        yield

    def _see_single(self, position: Position, metadata: pb.MessageMetadata, payload: bytes) -> None:
        place = _place(position, 0)
        if _is_chunk(metadata):
            if metadata.chunk_id < metadata.num_chunks_from_msg - 1:
                return
            self._last_chunks[raw(metadata.uuid)] = place
        self._note(_key_of(metadata), place, _is_empty(metadata, payload))

    def _note(self, key: bytes | None, place: int, deletes: bool) -> None:
        if key is None:
            self.removed += not self._retain_null_key
        elif deletes:
            self._latest.pop(key, None)
            self.removed += 1
        else:
            self.removed += key in self._latest
            self._latest[key] = place

    # --- the second pass ---------------------------------------------------------------------------------------------

    def kept(self, position: Position, entry: StoredEntry) -> Steps[bytes | ChangedBatch | None]:
        """Returns the part of the entry that is kept: its unchanged bytes, a batch with fewer messages, or None for
        nothing."""
        match entry.kind:
            case EntryKind.MARKER:
                return None
            case EntryKind.SINGLE:
                return entry.payload if self._keeps_single(position, entry.metadata) else None
            case EntryKind.BATCH:
                return (yield from self._kept_of_batch(position, entry))
            case _:
                return entry.payload

    def _keeps_single(self, position: Position, metadata: pb.MessageMetadata) -> bool:
        key = _key_of(metadata)
        if key is None:
            return self._retain_null_key
        place = _place(position, 0)
        if _is_chunk(metadata):
            # A last chunk that was not seen may come after the end of the part of the log that this run compacts.
            last = self._last_chunks.get(raw(metadata.uuid))
            return last is None or self._latest.get(key) == last
        return self._latest.get(key) == place

    def _kept_of_batch(self, position: Position, entry: StoredEntry) -> Steps[bytes | ChangedBatch | None]:
        """Replaces each removed message by an empty message that is marked as compacted out, so that the number of
        messages and their batch indexes stay the same."""
        parts: list[bytes] = []
        left: list[BatchMessage] = []
        retained = changed = size = 0
        for index, (single, value) in enumerate(entry.messages):
            if not single.compacted_out and self._keeps_in_batch(single, _place(position, index)):
                retained += 1
                left.append((single, value))
                size += len(value) + single.ByteSize()
            else:
                changed += not single.compacted_out
                left.append((pb.SingleMessageMetadata(compacted_out=True), b""))
            if len(left) == MESSAGES_A_STEP or size > BYTES_A_STEP:
                parts.append(build_batch(left))
                left, size = [], 0
                yield
        if not retained:
            return None
        return ChangedBatch(entry, b"".join((*parts, build_batch(left)))) if changed else entry.payload

    def _keeps_in_batch(self, single: pb.SingleMessageMetadata, place: int) -> bool:
        if not single.HasField("partition_key"):
            return self._retain_null_key
        return self._latest.get(raw(single.partition_key)) == place


def _place(position: Position, index: int) -> int:
    return position.ledger_id << _LEDGER_SHIFT | position.entry_id << _ENTRY_SHIFT | index


def _key_of(metadata: pb.MessageMetadata) -> bytes | None:
    return raw(metadata.partition_key) if metadata.HasField("partition_key") else None


def _is_empty(metadata: pb.MessageMetadata, payload: bytes) -> bool:
    if metadata.null_value:
        return True
    return metadata.uncompressed_size == 0 if metadata.HasField("uncompressed_size") else not body(payload)


def _is_chunk(metadata: pb.MessageMetadata) -> bool:
    return metadata.num_chunks_from_msg > 1 and bool(metadata.uuid)


def remaining_indexes(entry: StoredEntry) -> int | None:
    """Returns which messages of a batch compaction has kept, as a number whose bit k stands for batch index k. Returns
    None when compaction removed none of the messages, or when the batch cannot be decoded."""
    if len(entry.messages) <= 1 or not any(single.compacted_out for single, _ in entry.messages):
        return None
    return int("".join("0" if single.compacted_out else "1" for single, _ in reversed(entry.messages)), 2)


def last_batch_index(entry: StoredEntry) -> int:
    """Returns the batch index of the last message that compaction did not remove from the entry. Returns -1 when the
    entry is no batch of several messages, when compaction removed all of its messages, or when it cannot be decoded.
    Source: ServerCnx.calculateTheLastBatchIndexInBatch."""
    if len(entry.messages) <= 1:
        return -1
    return max((index for index, (single, _) in enumerate(entry.messages) if not single.compacted_out), default=-1)


def begins_in_the_past(asked: Position, mark_delete: Position, first: Position, durable: bool) -> bool:
    """Returns whether a consumer that asked for the messages from `asked` on begins in the compacted ledger. This is
    the case when `asked` is before the log's `first` message and the consumer's cursor has not moved since it was
    created. The mark-delete position of a durable cursor that has not moved is before the first entry of a ledger; if
    it is on an entry, the consumer may have acknowledged that entry
    (PersistentDispatcherSingleActiveConsumer.hasValidMarkDeletePosition)."""
    return asked < first and mark_delete < first and (not durable or mark_delete.entry_id < 0)
