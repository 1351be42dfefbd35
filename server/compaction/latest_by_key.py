"""What compaction keeps: of each key the last message, unless that deletes the key.

Two looks at the same messages in the same order. `see` notes where each key's last message stands; `kept` then says
what is left of an entry: all of it, a batch with messages taken out, or nothing. A message deletes its key when it is
empty. One without a key goes, but with `retain_null_key`. Both looks are generators of steps: a batch may be long.

Sources: PublishingOrderCompactor, AbstractTwoPhaseCompactor, RawBatchConverter, 4.0.7. Beyond Apache, which loses
messages there: chunks of the last message stay together, and an encrypted batch, of which nobody but its readers knows
the keys, stays as a whole.
"""

from magnetar.server.compaction.stored_entry import BYTES_A_STEP, MESSAGES_A_STEP, ChangedBatch, EntryKind, StoredEntry
from magnetar.server.process.turns import Steps
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import BatchMessage, body, build_batch
from pulsar_proto.text import raw

_LEDGER_SHIFT = 96
_ENTRY_SHIFT = 32


class LatestMessages:
    """One run of compaction. About 200 bytes for each key that is not deleted, whatever the messages are."""

    def __init__(self, *, retain_null_key: bool) -> None:
        self._retain_null_key = retain_null_key
        self._latest: dict[bytes, int] = {}
        """Key -> place of its last message: ledger, entry and batch index in one number."""
        self._last_chunks: dict[bytes, int] = {}
        """uuid of a chunked message -> place of its last chunk."""
        self.removed = 0
        """Messages that will go, as Java counts them."""

    def __len__(self) -> int:
        return len(self._latest)

    # --- the first look ----------------------------------------------------------------------------------------------

    def see(self, position: Position, entry: StoredEntry) -> Steps[None]:
        """What does not decode is kept later, and says nothing about keys."""
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

    # --- the second look ---------------------------------------------------------------------------------------------

    def kept(self, position: Position, entry: StoredEntry) -> Steps[bytes | ChangedBatch | None]:
        """What is left of the entry: the bytes that it had, fewer messages, or None for nothing."""
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
            # Without its last chunk the message may be complete after what is compacted now.
            last = self._last_chunks.get(raw(metadata.uuid))
            return last is None or self._latest.get(key) == last
        return self._latest.get(key) == place

    def _kept_of_batch(self, position: Position, entry: StoredEntry) -> Steps[bytes | ChangedBatch | None]:
        """The count of messages stays, so that indexes stay; a removed message is an empty one, marked."""
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
    """Which messages of a batch compaction left, bit k for index k; None where it took none out, or nobody can say."""
    if len(entry.messages) <= 1 or not any(single.compacted_out for single, _ in entry.messages):
        return None
    return int("".join("0" if single.compacted_out else "1" for single, _ in reversed(entry.messages)), 2)


def last_batch_index(entry: StoredEntry) -> int:
    """Of the last message that was not taken out of the entry; -1 where it is no batch of several, or not readable.
    Source: ServerCnx.calculateTheLastBatchIndexInBatch."""
    if len(entry.messages) <= 1:
        return -1
    return max((index for index, (single, _) in enumerate(entry.messages) if not single.compacted_out), default=-1)
