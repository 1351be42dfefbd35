"""The entries of many MESSAGE frames that lie in one buffer, as columns.

Each checksum is verified here. Entries unlike most others (encrypted, chunked, markers, damaged, without a checksum)
are marked odd, and are read one by one with protobuf (`cut`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error

import numpy as np
from google.protobuf.message import DecodeError

from magnetar.spark.source.decoding.wire_scan import Bools, Buffer, Ints, Scan, scan
from pulsar_proto.checksum import crc32c_of
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import (
    MAGIC_CRC32C,
    parse_metadata,
    skip_broker_entry_metadata,
    skip_checksum,
    verify_checksum,
)
from pulsar_proto.records.payload import body as body_of

Entry = tuple[int, int, pb.MessageMetadata, bytes]
"""One entry: ledger id, entry id, metadata, and the body as it is stored (it may be compressed and may be a batch)."""

_COMMAND_MESSAGE = pb.BaseCommand.DESCRIPTOR.fields_by_name["message"].number
_COMMAND_TYPE = pb.BaseCommand.DESCRIPTOR.fields_by_name["type"].number
_MESSAGE_ID = pb.CommandMessage.DESCRIPTOR.fields_by_name["message_id"].number
_LEDGER, _ENTRY = 1, 2
_NUMBERS = {name: field.number for name, field in pb.MessageMetadata.DESCRIPTOR.fields_by_name.items()}
_WANTED = frozenset(
    _NUMBERS[name]
    for name in (
        "publish_time", "partition_key", "compression", "uncompressed_size", "num_messages_in_batch", "event_time",
        "schema_version", "partition_key_b64_encoded", "marker_type", "null_value", "num_chunks_from_msg",
        "null_partition_key", "encryption_param", "ordering_key",
    )
)  # fmt: skip
_PROPERTIES, _COUNT = _NUMBERS["properties"], _NUMBERS["num_messages_in_batch"]
_ENCRYPTION = _NUMBERS["encryption_param"]
_NUMBERS_THAT_MAKE_ODD = (
    (_NUMBERS["marker_type"], -(2**63)),
    (_NUMBERS["num_chunks_from_msg"], 1),
    (_COUNT, 2**31 - 1),
)
"""Fields of the metadata, each with the largest value that does not make an entry odd."""

_magic_crc_size = Struct(">HII").unpack_from
_parse_metadata = pb.MessageMetadata.FromString


class CorruptEntry(Exception):
    """An entry's bytes disagree with their checksum or do not decode. The text names the entry."""


@dataclass(slots=True)
class EntryBlock:
    """Entries in the order in which they came. Each column has one item an entry."""

    buffer: Buffer
    ledgers: Ints
    entries: Ints
    starts: Ints
    """The offset at which each entry's payload begins, with its checksum."""
    bodies: Ints
    """The offset at which each entry's body begins, behind the metadata."""
    stops: Ints
    metadata: Scan
    odd: Bools
    """Says which entries are odd. The items of `bodies` and `metadata` for odd entries must not be used."""

    def __len__(self) -> int:
        return len(self.ledgers)

    def permits(self) -> Ints:
        """Returns how many permits each entry took: one for each message, and at least one, as in a broker."""
        counts = self.metadata.number(_COUNT)
        permits = np.ones(len(self), np.int64) if counts is None else np.maximum(counts, 1)
        for index, metadata in self.odd_metadata():
            permits[index] = max(1, metadata.num_messages_in_batch) if metadata is not None else 1
        return permits

    def odd_metadata(self) -> Iterator[tuple[int, pb.MessageMetadata | None]]:
        """Yields the number and the metadata of each odd entry; None stands for metadata that does not decode."""
        for index in np.flatnonzero(self.odd).tolist():
            try:
                yield index, cut(self.payload(index))[0]
            except MalformedFrame:
                yield index, None

    def payload(self, index: int) -> bytes:
        """Returns an entry as it is stored, with its checksum and metadata."""
        return self.buffer.data[self.starts[index] : self.stops[index]]

    def place(self, index: int) -> tuple[int, int]:
        """Returns the ledger id and entry id of an entry."""
        return int(self.ledgers[index]), int(self.entries[index])

    def entry(self, index: int, topic: str) -> Entry:
        """Returns one entry, parsed by protobuf. Raises CorruptEntry when the entry is damaged."""
        ledger, entry = self.place(index)
        try:
            return (ledger, entry, *cut(self.payload(index)))
        except MalformedFrame as error:
            raise CorruptEntry(f"{topic}: entry {ledger}:{entry} is damaged: {error}") from error

    def without_known(self, after: tuple[int, int]) -> "EntryBlock":
        """Returns the block without repeated entries. An entry is kept when its place is behind `after` and behind the
        place of the entry that was kept before it."""
        kept = []
        for index, place in enumerate(zip(self.ledgers.tolist(), self.entries.tolist(), strict=True)):
            if place > after:
                after = place
                kept.append(index)
        return self.pick(np.array(kept, np.int64))

    def is_behind(self, after: tuple[int, int]) -> bool:
        """Returns whether all entries come after `after`, in ascending order."""
        steps = np.diff(self.ledgers)
        ascends = ((steps > 0) | ((steps == 0) & (np.diff(self.entries) > 0))).all()
        return bool(ascends) and self.place(0) > after

    def pick(self, indexes: Ints) -> "EntryBlock":
        """Returns a block of some of the entries, which shares this block's buffer."""
        return EntryBlock(
            self.buffer,
            self.ledgers[indexes],
            self.entries[indexes],
            self.starts[indexes],
            self.bodies[indexes],
            self.stops[indexes],
            self.metadata.pick(indexes),
            self.odd[indexes],
        )


def block_of(buffer: Buffer, frames: Ints) -> tuple[EntryBlock | None, list[bytes]]:
    """Takes whole frames that begin at `frames` and whose sizes make sense (`inbox.whole_frames`). Returns the entries
    of all MESSAGE frames (None when there is no such frame) and the commands of all other frames. Raises MalformedFrame
    for a MESSAGE that does not decode.
    """
    commands = frames + 8
    payloads = commands + buffer.sizes_at(frames + 4)
    stops = frames + 4 + buffer.sizes_at(frames)
    found = scan(buffer, commands, payloads, (_COMMAND_TYPE, _COMMAND_MESSAGE))
    types = found.number(_COMMAND_TYPE)
    message = found.places.get(_COMMAND_MESSAGE)
    if types is None or message is None:
        is_message = np.zeros(len(frames), np.bool_)
        return None, _commands(buffer, commands, payloads, is_message)
    is_message = (types == pb.BaseCommand.MESSAGE) & message[2] & (payloads < stops) & ~found.odd
    others = [] if is_message.all() else _commands(buffer, commands, payloads, is_message)
    if not is_message.any():
        return None, others
    ids = scan(buffer, message[0][is_message], message[1][is_message], (_MESSAGE_ID,))
    if ids.odd.any() or _MESSAGE_ID not in ids.places:
        raise MalformedFrame("a MESSAGE does not decode")
    parts = scan(buffer, *ids.places[_MESSAGE_ID][:2], (_LEDGER, _ENTRY))
    if parts.odd.any():
        raise MalformedFrame("a MESSAGE's id does not decode")
    nothing = np.zeros(len(parts.odd), np.int64)
    ledgers, entries = parts.numbers.get(_LEDGER, nothing), parts.numbers.get(_ENTRY, nothing)
    return _entries(buffer, ledgers, entries, payloads[is_message], stops[is_message]), others


def _commands(buffer: Buffer, starts: Ints, stops: Ints, is_message: Bools) -> list[bytes]:
    return [buffer.data[starts[index] : stops[index]] for index in np.flatnonzero(~is_message).tolist()]


def _entries(buffer: Buffer, ledgers: Ints, entries: Ints, starts: Ints, stops: Ints) -> EntryBlock:
    heads = buffer.sizes_at(starts)
    bodies = starts + 10 + buffer.sizes_at(starts + 6)
    odd = (heads >> 16 != MAGIC_CRC32C) | (bodies > stops) | (starts + 10 > stops)
    bodies = np.where(odd, starts, bodies)  # empty ranges: metadata with wrong sizes is not scanned
    data, stored = buffer.data, buffer.sizes_at(starts + 2)
    # One copy at a time, so that each takes the memory of the one before it, which the processor still has at hand.
    checked = (data[start:stop] for start, stop in zip((starts + 6).tolist(), stops.tolist(), strict=True))
    odd |= np.fromiter(map(crc32c_of, checked), np.int64, len(starts)) != stored
    metadata = scan(buffer, np.minimum(starts + 10, bodies), bodies, _WANTED, _PROPERTIES)
    odd |= metadata.odd
    for field, most in _NUMBERS_THAT_MAKE_ODD:
        if field in metadata.numbers:
            odd |= metadata.has[field] & (metadata.numbers[field] > most)
    if _ENCRYPTION in metadata.places:
        odd |= metadata.places[_ENCRYPTION][2]
    return EntryBlock(buffer, ledgers, entries, starts, bodies, stops, metadata, odd)


def cut(payload: bytes) -> tuple[pb.MessageMetadata, bytes]:
    """Returns metadata and body of a MESSAGE's payload after checking its checksum. Raises MalformedFrame.

    A payload that begins with a checksum is parsed here at once. All other payloads, which have broker entry metadata,
    have no checksum or do not decode, go through `pulsar_proto.records.payload`, which can read every form.
    """
    try:
        magic, crc, size = _magic_crc_size(payload)
        if magic == MAGIC_CRC32C:
            if crc32c_of(payload[6:]) != crc:
                raise MalformedFrame("its checksum is wrong")
            end = 10 + size
            metadata = _parse_metadata(payload[10:end])
            if end <= len(payload):
                return metadata, payload[end:]
    except (struct_error, DecodeError):
        pass
    start = skip_broker_entry_metadata(payload)
    if not verify_checksum(payload[start:]):
        raise MalformedFrame("its checksum is wrong")
    return parse_metadata(payload, skip_checksum(payload)), body_of(payload)
