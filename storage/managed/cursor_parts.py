"""Large acknowledgement states as several entries of a cursor ledger, when one entry has no room for them. Pure.

    part, part, …      PositionInfo{an old position, part: compressed bitmaps}
    the record         PositionInfo{mark-delete, field 6: the ledgers next to it, …, partsBefore: how many parts}

Apache's broker reads the last entry only and passes over fields that it does not know. Such a broker sees a valid state
that says less, so messages are delivered again but none is lost. That also holds when a crash makes a part the last
entry, because the position in a part was stored before.

Encoding takes a while, so a state is encoded slice by slice, and the state goes on changing between slices. No lock is
needed. Between two resets bits are only ever added, or removed because the mark-delete has passed them, so an older
slice says less than the truth, never more, as long as the mark-delete is taken last:

    time ──▶  slice of ledger 7 │ slice of ledger 8 │ mark-delete
              5, 9              │ 1, 2              │ 7:6
                                                      5 is covered by the mark-delete now; an
                                                      acknowledgement of 7:8 since is missing

The missing acknowledgement is stored the next time. `AckState.reset` clears bits. `AckState.resets` counts how often
that happened, and when the count has grown between slices, the state is written anew. See docs/CURSORS.md, "States that
outgrow an entry".
"""

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct

from pyroaring import BitMap

from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.bitmap_words import bitmap_of_bits, bits_of_bitmap
from magnetar.storage.managed.cursor_record import encode_head
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.pb import managed_ledger_pb2 as pb

INLINE_BYTES = 256 * 1024
"""A state with at most this many bytes of bitmaps is encoded on the event loop's thread, which takes about two
milliseconds."""

SLICE_BYTES = 1024 * 1024
"""How many bytes of bitmaps a slice has at most. A slice of a single ledger may have more."""

RECORD_BYTES_MAX = 4 * 1024 * 1024
"""The largest entry of a cursor ledger, in bytes; a bookie takes 5 MiB."""

LEDGER_BITS_MAX = 2**32 // 8
"""The largest bitmap of one ledger, in bytes; entry ids have 32 bits."""

PART_BYTES_MAX = 4 * SLICE_BYTES
"""The largest part before compression, in bytes. A part holds about two slices."""

PARTS_MAX = 4_096
"""How many parts belong to a record at most."""

_LEDGER = Struct("<QI")

Slice = list[tuple[int, BitMap]]
"""The pair (ledger, a copy of the ledger's bitmap) for each ledger of the slice."""


def bitmap_bytes(acks: AckState) -> int:
    """Returns roughly how many bytes the bitmaps of the state take."""
    return sum(bitmap.max() // 8 + 16 for _, bitmap in acks.bitmaps())


def slices(acks: AckState) -> Iterator[Slice]:
    """Yields the state slice by slice, beginning at the mark-delete. Each slice has the state of the moment when it is
    asked for."""
    piece: Slice = []
    size = 0
    for ledger_id in [ledger_id for ledger_id, _ in acks.bitmaps()]:
        bitmap = acks.bitmap_of(ledger_id)
        if bitmap is None:
            continue
        more = bitmap.max() // 8
        if piece and size + more > SLICE_BYTES:
            yield piece
            bitmap = acks.bitmap_of(ledger_id)
            piece, size = [], 0
            if bitmap is None:
                continue
        piece.append((ledger_id, bitmap.copy()))
        size += more
    if piece:
        yield piece


def encode_part(piece: Slice, old_position: Position) -> list[bytes]:
    """Returns a slice as entries: one, or several when a ledger's bitmap is larger than an entry."""
    entries: list[bytes] = []
    raw = bytearray()
    for ledger_id, bitmap in piece:
        bits = bits_of_bitmap(bitmap)
        # A ledger's bits may be cut and go on in the next entry; `start` says how many bytes came before.
        for start in range(0, len(bits), SLICE_BYTES):
            some = bits[start : start + SLICE_BYTES]
            if raw and len(raw) + len(some) > 2 * SLICE_BYTES:
                entries.append(_entry(bytes(raw), old_position))
                raw.clear()
            raw += _LEDGER.pack(ledger_id, len(some)) + start.to_bytes(4, "little") + some
    if raw:
        entries.append(_entry(bytes(raw), old_position))
    return entries


def _entry(raw: bytes, old_position: Position) -> bytes:
    part = pb.PositionInfo(part=zlib.compress(raw, 1))
    return encode_head(old_position) + part.SerializePartialToString()


def parse_part(part: bytes) -> dict[int, BitMap]:
    """Decodes `StoredAcks.part`. Returns ledger -> bitmap. Raises MalformedRecord."""
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(part, PART_BYTES_MAX)
    except zlib.error as error:
        raise MalformedRecord(f"part of {len(part)} bytes does not decompress: {error}") from error
    if not unpacker.eof:
        raise MalformedRecord(f"part of {len(part)} bytes is cut, or larger than {PART_BYTES_MAX} bytes")
    found: dict[int, BitMap] = {}
    at = 0
    while at < len(raw):
        if at + _LEDGER.size + 4 > len(raw):
            raise MalformedRecord("part ends within a ledger")
        ledger_id, size = _LEDGER.unpack_from(raw, at)
        at += _LEDGER.size
        start = int.from_bytes(raw[at : at + 4], "little")
        at += 4
        if at + size > len(raw) or start + size > LEDGER_BITS_MAX:
            raise MalformedRecord(f"part names {size} bytes of ledger {ledger_id} that it does not have")
        bitmap = bitmap_of_bits(raw[at : at + size])
        at += size
        if start:
            bitmap = bitmap.shift(8 * start)
        known = found.get(ledger_id)
        found[ledger_id] = bitmap if known is None else known | bitmap
    return found


def merged(states: Sequence[dict[int, BitMap]]) -> dict[int, BitMap]:
    """Returns the union of the states: for each ledger the bits that any of them has."""
    result: dict[int, BitMap] = {}
    for state in states:
        for ledger_id, bitmap in state.items():
            known = result.get(ledger_id)
            result[ledger_id] = bitmap if known is None else known | bitmap
    return result
