"""Decodes a block of ordinary entries to rows, all at once, without making an object for each message.

`RowDecoder` is the slower way to the same rows. Whatever is unusual (a batch with wrong sizes, text that is not UTF-8,
a body that does not decompress) raises Unusual here. Then the caller gives the entries to `RowDecoder`, which reads
them or raises the error that names the damaged entry.
"""

import base64
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from magnetar.spark.source.decoding.arrow_arrays import column_of, repeated
from magnetar.spark.source.decoding.batch_walk import Unusual, places_of
from magnetar.spark.source.decoding.compression import BadCompression, decompress
from magnetar.spark.source.decoding.entry_block import EntryBlock
from magnetar.spark.source.decoding.row_columns import ALL_PARTS, MAP, TIME, RowColumns, moments, no_maps, times
from magnetar.spark.source.decoding.wire_scan import PADDING, Bools, Buffer, Ints, Scan, scan, varint_bytes
from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Range
from pulsar_proto.ids import unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint

_META = {name: field.number for name, field in pb.MessageMetadata.DESCRIPTOR.fields_by_name.items()}
_ONE = {name: field.number for name, field in pb.SingleMessageMetadata.DESCRIPTOR.fields_by_name.items()}
_HEADER_FIELDS = (
    "partition_key", "partition_key_b64_encoded", "event_time", "null_value", "null_partition_key", "ordering_key",
)  # fmt: skip
_WANTED_OF_ONE = frozenset(_ONE[name] for name in (*_HEADER_FIELDS, "payload_size", "compacted_out"))


@dataclass(slots=True)
class _BlockMessages:
    """The messages of a block, in columns of one item a message: the fields of its metadata, and the place of its
    value."""

    entry: Ints
    """The number of the message's entry within the block."""
    index: Ints | None
    """The message's index in its batch; None when no message is in a batch."""
    starts: Ints
    stops: Ints
    heads: Scan
    fields: dict[str, int]
    """The protobuf field numbers by field name; `heads` uses the same numbers. For messages in batches these are the
    field numbers of SingleMessageMetadata, otherwise those of MessageMetadata."""

    def pick(self, kept: Ints) -> "_BlockMessages":
        index = None if self.index is None else self.index[kept]
        return _BlockMessages(
            self.entry[kept], index, self.starts[kept], self.stops[kept], self.heads.pick(kept), self.fields
        )


class BlockDecoder:
    """Decodes the entries of one partition, and drops the messages that are outside the wanted range."""

    def __init__(self, partition: int, wanted: Range, parts: Collection[str] = ALL_PARTS) -> None:
        """`parts` are the attributes of RowColumns that are needed; those that are not stay empty."""
        self._partition = b"\x18" + varint(partition) if partition >= 0 else b""
        self._wanted = wanted
        self._parts = parts

    def decode(self, block: EntryBlock) -> list[RowColumns]:
        """Returns the rows of a block that has no odd entries. The rows come in pieces, each either of batches or of
        single messages. Raises Unusual."""
        buffer, bodies, stops = _unpacked(block)
        is_batch = block.metadata.has.get(_META["num_messages_in_batch"])
        if is_batch is None or not is_batch.any():
            pieces = [self._singles(block, bodies, stops, np.arange(len(block)))]
        elif is_batch.all():
            pieces = [self._batches(buffer, block, bodies, stops, np.arange(len(block)))]
        else:
            pieces = []
            borders = np.flatnonzero(is_batch[1:] != is_batch[:-1]) + 1
            if len(borders) > len(block) // 8 + 4:
                raise Unusual("batches and single messages take turns")
            for entries in np.split(np.arange(len(block)), borders):
                if is_batch[entries[0]]:
                    pieces.append(self._batches(buffer, block, bodies, stops, entries))
                else:
                    pieces.append(self._singles(block, bodies, stops, entries))
        found = [self._inside(block, piece) for piece in pieces]
        return [self._columns(buffer, block, piece) for piece in found if len(piece.entry)]

    def _singles(self, block: EntryBlock, bodies: Ints, stops: Ints, entries: Ints) -> _BlockMessages:
        heads = block.metadata if len(entries) == len(block) else block.metadata.pick(entries)
        return _BlockMessages(entries, None, bodies[entries], stops[entries], heads, _META)

    def _batches(self, buffer: Buffer, block: EntryBlock, bodies: Ints, stops: Ints, entries: Ints) -> _BlockMessages:
        sizes = block.metadata.numbers[_META["num_messages_in_batch"]][entries]
        starts, values, ends = places_of(buffer, bodies[entries], stops[entries], sizes)
        heads = scan(buffer, starts, values, _WANTED_OF_ONE, _ONE["properties"])
        told = heads.number(_ONE["payload_size"])
        if heads.odd.any() or told is None or (told != ends - values).any():
            raise Unusual("a batch that only protobuf can read")
        firsts = np.cumsum(sizes) - sizes
        index = np.arange(len(starts)) - np.repeat(firsts, sizes)
        found = _BlockMessages(np.repeat(entries, sizes), index, values, ends, heads, _ONE)
        gone = heads.flags(_ONE["compacted_out"])
        return found if gone is None else found.pick(np.flatnonzero(~gone))

    def _inside(self, block: EntryBlock, found: _BlockMessages) -> _BlockMessages:
        """Returns the messages that are in the wanted range."""
        after, upto = self._wanted
        if not len(found.entry):
            return found
        first, last = block.place(int(found.entry[0])), block.place(int(found.entry[-1]))
        if after[:2] < first and last < upto[:2]:
            return found
        ledgers, entries = block.ledgers[found.entry], block.entries[found.entry]
        indexes = np.full(len(entries), WHOLE_ENTRY) if found.index is None else found.index
        kept = ~_is_upto(ledgers, entries, indexes, after) & _is_upto(ledgers, entries, indexes, upto)
        return found if kept.all() else found.pick(np.flatnonzero(kept))

    def _columns(self, buffer: Buffer, block: EntryBlock, found: _BlockMessages) -> RowColumns:
        metadata = block.metadata
        published = metadata.number(_META["publish_time"])
        milliseconds = np.zeros(len(found.entry), np.int64) if published is None else published[found.entry]
        event_times = found.heads.number(found.fields["event_time"])
        parts, count = self._parts, len(found.entry)
        no_bytes = pa.nulls(count, pa.binary())
        return RowColumns(
            _values(buffer, found) if "values" in parts else no_bytes,
            _keys(buffer, found) if "keys" in parts else no_bytes,
            times(milliseconds),
            pa.nulls(count, TIME) if event_times is None else moments(event_times),
            _properties(buffer, found.heads) if "properties" in parts else no_maps(count),
            self._ids(block, found) if "ids" in parts else None,
            _versions(block, found.entry) if "versions" in parts else None,
            _ordering_keys(buffer, found) if "ordering_keys" in parts else None,
            int((found.stops - found.starts).sum()) if "values" in parts else 0,
        )

    def _ids(self, block: EntryBlock, found: _BlockMessages) -> pa.BinaryArray:
        """Returns the ids as MessageIdData: ledger, entry, partition, and for messages of batches index and batch
        size."""
        ledgers = block.ledgers[found.entry]
        borders = np.flatnonzero(np.diff(ledgers)) + 1
        parts = [self._ids_of_ledger(block, found, each) for each in np.split(np.arange(len(ledgers)), borders)]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _ids_of_ledger(self, block: EntryBlock, found: _BlockMessages, rows: Ints) -> pa.BinaryArray:
        of = found.entry[rows]
        ledger = b"\x08" + varint(unsigned64(int(block.ledgers[of[0]]))) + b"\x10"
        parts: list[bytes | Ints] = [ledger, block.entries[of], self._partition]
        if found.index is not None:
            parts += [b"\x20", found.index[rows], b"\x30", block.metadata.numbers[_META["num_messages_in_batch"]][of]]
        return _glued(parts, len(rows))


def _unpacked(block: EntryBlock) -> tuple[Buffer, Ints, Ints]:
    """Returns a buffer with the decompressed bodies, and the places in it at which each body starts and stops. Raises
    Unusual.

    When no body is compressed, the returned buffer is the block's own. Otherwise the decompressed bodies are appended
    to a copy of the block's buffer, so that the places of metadata and of uncompressed bodies are the same in both
    buffers.
    """
    kinds = block.metadata.flags(_META["compression"])
    if kinds is None:
        return block.buffer, block.bodies, block.stops
    data = block.buffer.data
    sizes = block.metadata.number(_META["uncompressed_size"])
    bodies, stops = block.bodies.copy(), block.stops.copy()
    parts = [data[: block.buffer.size]]
    end = len(parts[0])
    for at in np.flatnonzero(kinds).tolist():
        kind = int(block.metadata.numbers[_META["compression"]][at])
        try:
            body = decompress(data[bodies[at] : stops[at]], kind, 0 if sizes is None else int(sizes[at]))
        except BadCompression as error:
            raise Unusual(str(error)) from error
        parts.append(body)
        bodies[at], stops[at] = end, end + len(body)
        end += len(body)
        if end > _UNPACKED_BYTES_MAX:
            raise Unusual("much to hold at once")
    return Buffer(b"".join((*parts, bytes(PADDING)))), bodies, stops


_UNPACKED_BYTES_MAX = 1 << 28
"""A block that holds more than this uncompressed is read entry by entry."""


def _is_upto(ledgers: Ints, entries: Ints, indexes: Ints, bound: tuple[int, int, int]) -> Bools:
    ledger, entry, index = bound
    inside: Bools = (ledgers < ledger) | (
        (ledgers == ledger) & ((entries < entry) | ((entries == entry) & (indexes <= index)))
    )
    return inside


def _values(buffer: Buffer, found: _BlockMessages) -> pa.BinaryArray:
    nothing = found.heads.flags(found.fields["null_value"])
    return buffer.values(found.starts, found.stops, None if nothing is None else ~nothing)


def _keys(buffer: Buffer, found: _BlockMessages) -> pa.BinaryArray:
    """Returns the keys' bytes. Keys that the metadata marks as base64 are decoded, because clients send binary keys as
    base64."""
    heads, fields = found.heads, found.fields
    places = heads.places.get(fields["partition_key"])
    if places is None:
        return pa.nulls(len(found.entry), pa.binary())
    starts, stops, present = places
    nothing = heads.flags(fields["null_partition_key"])
    if nothing is not None:
        present = present & ~nothing
    keys = buffer.values(starts, stops, present)
    _must_be_text(keys)
    encoded = heads.flags(fields["partition_key_b64_encoded"])
    if encoded is None:
        return keys
    plain = keys.to_pylist()
    try:
        for at in np.flatnonzero(encoded & present).tolist():
            plain[at] = base64.b64decode(plain[at].decode("ascii"))
    except ValueError as error:
        raise Unusual(str(error)) from error
    return pa.array(plain, pa.binary())


def _must_be_text(column: pa.BinaryArray) -> pa.StringArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Unusual(str(error)) from error


def _properties(buffer: Buffer, heads: Scan) -> pa.MapArray:
    """Returns the messages' properties. When a message has a name twice, the last one counts."""
    if not heads.repeated or not sum(len(rows) for rows, _, _ in heads.repeated):
        return no_maps(heads.count)
    rows, starts, stops = (np.concatenate(part) for part in zip(*heads.repeated, strict=True))
    order = np.lexsort((starts, rows))
    rows, starts, stops = rows[order], starts[order], stops[order]
    pairs = scan(buffer, starts, stops, (1, 2))
    if pairs.odd.any():
        raise Unusual("properties that only protobuf can read")
    names, texts = (_must_be_text(_all_of(buffer, pairs, field)) for field in (1, 2))
    counts = np.bincount(rows, minlength=heads.count)
    if counts.max() > 1:
        numbers = np.frombuffer(names.dictionary_encode().indices.buffers()[1], np.int32, len(names)).astype(np.int64)
        if len(np.unique(rows << 32 | numbers)) < len(rows):
            maps: list[dict[str, str]] = [{} for _ in range(heads.count)]
            for row, name, text in zip(rows.tolist(), names.to_pylist(), texts.to_pylist(), strict=True):
                maps[row][name] = text
            return pa.array([list(each.items()) for each in maps], MAP)
    borders = np.zeros(heads.count + 1, np.int32)
    np.cumsum(counts, out=borders[1:])
    return pa.MapArray.from_arrays(column_of(borders), names, texts)


def _all_of(buffer: Buffer, pairs: Scan, field: int) -> pa.BinaryArray:
    places = pairs.places.get(field)
    if places is None:
        return repeated(b"", pairs.count, pa.binary())
    return buffer.values(places[0], places[1])


def _versions(block: EntryBlock, entries: Ints) -> pa.BinaryArray | None:
    places = block.metadata.places.get(_META["schema_version"])
    if places is None:
        return None
    starts, stops, _ = places
    return block.buffer.values(starts, stops).take(column_of(entries))


def _ordering_keys(buffer: Buffer, found: _BlockMessages) -> pa.BinaryArray | None:
    """Returns the ordering keys, with null for an empty key. Returns None when no message has an ordering key."""
    places = found.heads.places.get(found.fields["ordering_key"])
    if places is None:
        return None
    starts, stops, _ = places
    return buffer.values(starts, stops, starts < stops)


def _glued(parts: list[bytes | Ints], count: int) -> pa.BinaryArray:
    """Returns a column of `count` values. Each value is the concatenation of its parts: constant bytes, and numbers as
    varints.

    All parts are laid side by side as a matrix of bytes, a row a value. A part of numbers has as many matrix columns as
    its longest varint has bytes, and `which` marks the bytes that count. The marked bytes, row by row, are the content
    of the returned column. Mostly all varints of a part are equally long, so that every byte counts.
    """
    octets, used, is_even = [], [], True
    for part in parts:
        if isinstance(part, bytes):
            octets.append(np.broadcast_to(np.frombuffer(part, np.uint8), (count, len(part))))
            used.append(np.ones((count, len(part)), np.bool_))
        else:
            rows, which = varint_bytes(part)
            octets.append(rows)
            used.append(which)
            is_even = is_even and bool(which.all())
    content = np.hstack(octets)
    if is_even:
        borders = np.arange(0, content.size + 1, content.shape[1], dtype=np.int32)
        content = content.ravel()
    else:
        which = np.hstack(used)
        borders = np.zeros(count + 1, np.int32)
        np.cumsum(which.sum(axis=1), out=borders[1:])
        content = content[which]
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(borders), pa.py_buffer(content)])
