"""Decodes entries to rows one by one: odd entries, such as the chunks of large messages, and entries that
`BlockDecoder` refuses. Tests compare the rows of both decoders.

Batches are walked by offsets, and every value is appended to a list that becomes an Arrow column.
"""

import base64
from collections.abc import Callable, Collection
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Any

from google.protobuf.message import DecodeError

from magnetar.spark.source.decoding.compression import BadCompression, decompress
from magnetar.spark.source.decoding.entry_block import CorruptEntry, Entry
from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Range
from magnetar.spark.source.ranges.continuity_rules import takes
from pulsar_proto.ids import unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint

CHUNKED_MESSAGES_MAX = 100
"""How many unfinished chunked messages of one partition are kept (clients keep 10: maxPendingChunkedMessage). When
there are more, the oldest message is given up."""
BATCH_SIZES_KEPT = 64
"""For how many sizes of batches the ends of message ids are kept. When there are more sizes, the table is emptied."""

_size_at = Struct(">I").unpack_from
_parse_single = pb.SingleMessageMetadata.FromString
_PAYLOAD_SIZE_TAG = 3 << 3
_SEQUENCE_ID_TAG = 8 << 3

Properties = tuple[tuple[str, str], ...]


class DecodedRows:
    """Columns under construction. `keys`, `event_times` and `properties` have None for a message that lacks a key, an
    event time or properties."""

    __slots__ = (
        "event_times", "has_properties", "ids", "keys", "ordering_keys", "properties", "publish_times",
        "schema_versions", "size", "values",
    )  # fmt: skip

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self.event_times: list[int | None] = []
        self.properties: list[Properties | None] = []
        self.ids: list[bytes] = []
        self.publish_times: list[int] = []
        self.schema_versions: list[bytes] = []
        self.ordering_keys: dict[int, bytes] = {}
        """The ordering keys by row, because few messages have one."""
        self.has_properties = False
        self.size = 0
        """The bytes of all values together."""

    def __len__(self) -> int:
        return len(self.values)

    def cut(self, count: int) -> None:
        """Removes the rows from `count` on, which a damaged entry has left behind."""
        columns: tuple[list[Any], ...] = (self.values, self.keys, self.event_times, self.properties, self.ids)
        for column in (*columns, self.publish_times, self.schema_versions):
            del column[count:]
        self.ordering_keys = {row: key for row, key in self.ordering_keys.items() if row < count}


@dataclass(slots=True)
class _Chunks:
    """The chunks of one message that have come so far."""

    first_id: pb.MessageIdData
    parts: list[bytes]


class RowDecoder:
    """Turns the entries of one partition's range into rows."""

    def __init__(self, topic: str, partition: int, wanted: Range, *, with_ids: bool = True) -> None:
        self._topic = topic
        self._partition_bytes = b"\x18" + varint(partition) if partition >= 0 else b""
        self._partition = partition
        self._wanted = wanted
        self._with_ids = with_ids
        self._ledger = -1
        self._ledger_bytes = b""
        self._chunks: dict[str, _Chunks] = {}
        self._suffixes: dict[int, list[bytes]] = {}
        self.skipped_chunks = 0
        """How many chunks were left out: the chunks of messages that begin before the range, and of messages that were
        given up."""

    @property
    def has_unfinished_chunks(self) -> bool:
        return bool(self._chunks)

    def decode(self, entry: Entry, rows: DecodedRows) -> None:
        """Appends the entry's messages that are in the range to `rows`. Raises CorruptEntry, and then leaves `rows` as
        they were."""
        ledger, entry_id, metadata, body = entry
        if metadata.encryption_param:
            raise CorruptEntry(f"{self._topic}: entry {ledger}:{entry_id} is encrypted; this source has no keys")
        if metadata.num_chunks_from_msg > 1:
            self._chunk(entry, rows)
            return
        after, upto = self._wanted
        place, before = (ledger, entry_id), len(rows.values)
        if place < after[:2] or place > upto[:2] or metadata.HasField("marker_type"):
            return
        try:
            if metadata.compression:
                body = decompress(body, metadata.compression, metadata.uncompressed_size)
            if metadata.HasField("num_messages_in_batch"):
                self._batch(ledger, entry_id, metadata, body, rows)
            elif after < (ledger, entry_id, WHOLE_ENTRY) <= upto:
                self._single(self._id_prefix(ledger, entry_id), metadata, body, rows)
        except (BadCompression, DecodeError, struct_error, IndexError, ValueError) as error:
            rows.cut(before)
            raise CorruptEntry(f"{self._topic}: entry {ledger}:{entry_id} does not decode: {error}") from error

    def _id_prefix(self, ledger: int, entry_id: int) -> bytes:
        if ledger != self._ledger:
            self._ledger = ledger
            self._ledger_bytes = b"\x08" + varint(unsigned64(ledger)) + b"\x10"
        return self._ledger_bytes + varint(entry_id) + self._partition_bytes

    def _single(self, message_id: bytes, metadata: pb.MessageMetadata, body: bytes, rows: DecodedRows) -> None:
        rows.values.append(None if metadata.null_value else body)
        rows.size += len(body)
        rows.keys.append(key_of(metadata))
        rows.event_times.append(metadata.event_time or None)
        rows.properties.append(_properties(metadata, rows))
        if metadata.ordering_key:
            rows.ordering_keys[len(rows.values) - 1] = metadata.ordering_key
        rows.ids.append(message_id)
        rows.publish_times.append(metadata.publish_time)
        rows.schema_versions.append(metadata.schema_version)

    def _batch(self, ledger: int, entry_id: int, metadata: pb.MessageMetadata, batch: bytes, rows: DecodedRows) -> None:
        count = metadata.num_messages_in_batch
        if count <= 0 or count * 5 > len(batch):
            raise ValueError(f"{count} messages in {len(batch)} bytes")
        after, upto = self._wanted.after, self._wanted.upto
        first = after.batch_index + 1 if (ledger, entry_id) == after[:2] else 0
        last = upto.batch_index if (ledger, entry_id) == upto[:2] else count
        if first == 0 and last >= count - 1:
            taken = _walk(batch, count, rows, None)
            indexes: Collection[int] = range(count) if len(taken) == count else taken
        else:
            indexes = taken = _walk(batch, count, rows, (first, last))
        if not indexes:
            return
        rows.size += len(batch)
        if self._with_ids:
            prefix = self._id_prefix(ledger, entry_id)
            suffixes = self._suffixes_of(count)
            if len(indexes) == count:
                rows.ids += [prefix + suffix for suffix in suffixes]
            else:
                rows.ids += [prefix + suffixes[index] for index in indexes]
        rows.publish_times += [metadata.publish_time] * len(indexes)
        rows.schema_versions += [metadata.schema_version] * len(indexes)

    def _suffixes_of(self, count: int) -> list[bytes]:
        """Returns batch index and batch size as MessageIdData holds them, for each message of a batch of `count`
        messages. The table keeps these bytes for about BATCH_SIZES_KEPT sizes of batches, and then is emptied."""
        known = self._suffixes.get(count)
        if known is None:
            if len(self._suffixes) > BATCH_SIZES_KEPT:
                self._suffixes.clear()
            size = b"\x30" + varint(count)
            known = self._suffixes[count] = [b"\x20" + varint(index) + size for index in range(count)]
        return known

    def _chunk(self, entry: Entry, rows: DecodedRows) -> None:
        """Keeps a chunk until its message is complete. The message belongs to the range that its first chunk is in, and
        its id is that of the last chunk."""
        ledger, entry_id, metadata, body = entry
        message_id = pb.MessageIdData(ledgerId=ledger, entryId=entry_id)
        if self._partition >= 0:
            message_id.partition = self._partition
        if metadata.chunk_id == 0:
            if takes(self._wanted, ledger, entry_id, -1):
                if len(self._chunks) >= CHUNKED_MESSAGES_MAX:
                    self.skipped_chunks += len(self._chunks.pop(next(iter(self._chunks))).parts)
                self._chunks[metadata.uuid] = _Chunks(message_id, [body])
            return
        known = self._chunks.get(metadata.uuid)
        if known is None or metadata.chunk_id < len(known.parts):
            # the message began before the range, or the chunk came twice
            self.skipped_chunks += known is None
            return
        if metadata.chunk_id > len(known.parts):
            del self._chunks[metadata.uuid]
            raise CorruptEntry(f"{self._topic}: chunk {len(known.parts)} of message {metadata.uuid} is missing")
        known.parts.append(body)
        if len(known.parts) < metadata.num_chunks_from_msg:
            return
        del self._chunks[metadata.uuid]
        message_id.first_chunk_message_id.CopyFrom(known.first_id)
        whole = b"".join(known.parts)
        try:
            whole = decompress(whole, metadata.compression, metadata.uncompressed_size)
        except BadCompression as error:
            raise CorruptEntry(f"{self._topic}: chunked message {metadata.uuid}: {error}") from error
        self._single(message_id.SerializeToString(), metadata, whole, rows)

    def give_up_chunks(self) -> int:
        """Forgets the unfinished chunked messages, whose producers died, and returns how many messages those were."""
        count = len(self._chunks)
        self._chunks.clear()
        return count


def _walk(batch: bytes, count: int, rows: DecodedRows, only: tuple[int, int] | None) -> list[int]:
    """Appends the messages of a batch to the rows, all or those whose index is from `only[0]` to `only[1]`. Returns
    their indexes. Raises ValueError, IndexError or struct.error when the batch does not decode.

    Most messages have nothing but payload_size and sequence_id in their metadata. These two are recognized by their
    tags, and such a message is read without protobuf: the metadata is `0x18 size`, perhaps followed by `0x40 sequence
    id` up to its end.
    """
    add_value: Callable[[bytes | None], None] = rows.values.append
    taken: list[int] = []
    plain = 0
    at = 0
    for index in range(count):
        (head_size,) = _size_at(batch, at)
        start = at + 4
        end = start + head_size
        size = batch[start + 1]
        rest = start + 2
        if size > 127:
            size = size & 127 | batch[rest] << 7
            rest += 1
        if (
            batch[start] == _PAYLOAD_SIZE_TAG
            and size < 16384
            and (rest == end or (batch[rest] == _SEQUENCE_ID_TAG and (end - rest == 2 or batch[end - 2] > 127)))
        ):
            at = end + size
            if at > len(batch):
                raise ValueError(f"message {index} reaches beyond its batch")
            if only is None or only[0] <= index <= only[1]:
                plain += 1
                add_value(batch[end:at])
                taken.append(index)
            continue
        single = _parse_single(batch[start:end])
        at = end + single.payload_size
        if single.payload_size < 0 or at > len(batch):
            raise ValueError(f"message {index} of {single.payload_size} bytes reaches beyond its batch")
        if single.compacted_out or not (only is None or only[0] <= index <= only[1]):
            continue
        _add_plain(rows, plain)
        plain = 0
        add_value(None if single.null_value else batch[end:at])
        rows.keys.append(key_of(single))
        rows.event_times.append(single.event_time or None)
        rows.properties.append(_properties(single, rows))
        if single.ordering_key:
            rows.ordering_keys[len(rows.values) - 1] = single.ordering_key
        taken.append(index)
    _add_plain(rows, plain)
    if at != len(batch):
        raise ValueError(f"{len(batch) - at} bytes are left over after a batch of {count}")
    return taken


def _add_plain(rows: DecodedRows, count: int) -> None:
    if count:
        nothing: list[None] = [None] * count
        rows.keys += nothing
        rows.event_times += nothing
        rows.properties += nothing


def key_of(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> bytes | None:
    """Returns the key's bytes, or None for a message without a key. Clients send binary keys as base64 text."""
    if not metadata.HasField("partition_key") or metadata.null_partition_key:
        return None
    key = metadata.partition_key
    return base64.b64decode(key) if metadata.partition_key_b64_encoded else key.encode()


def _properties(metadata: pb.MessageMetadata | pb.SingleMessageMetadata, rows: DecodedRows) -> Properties | None:
    if not metadata.properties:
        return None
    rows.has_properties = True
    return tuple({pair.key: pair.value for pair in metadata.properties}.items())
