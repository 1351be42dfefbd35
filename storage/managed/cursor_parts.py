"""Large acknowledgement states as several entries of a cursor ledger: what a PositionInfo of one entry has no room for.

    part, part, …      PositionInfo{an old position, part: compressed bitmaps}
    the record         PositionInfo{mark-delete, field 6: the ledgers next to it, …, partsBefore: how many parts}

Apache's broker reads the last entry only and passes over fields that it does not know: it sees a valid state that says
less, so messages come again but none is lost. That also holds for a last entry that is a part, after a crash.

A state is encoded in slices, because it takes a while and goes on changing meanwhile: bits are only ever added (but by
`AckState.reset`, see `resets`), or go because the mark-delete has passed them; so the mark-delete is taken last.

Pure. The compression is zlib's fastest, of bitmaps as bytes.
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
"""States of up to so many bytes of bitmaps are encoded at once, which takes two milliseconds or so."""

SLICE_BYTES = 1024 * 1024
"""Of bitmaps, in a slice; one ledger may have more by itself."""

RECORD_BYTES_MAX = 4 * 1024 * 1024
"""Of an entry of a cursor ledger; a bookie takes 5 MiB."""

LEDGER_BITS_MAX = 2**32 // 8
"""Bytes of one ledger's bitmap: entry ids are of 32 bits."""

PART_BYTES_MAX = 4 * SLICE_BYTES
"""Of a part before its compression: about two slices are."""

PARTS_MAX = 4_096

_LEDGER = Struct("<QI")

Slice = list[tuple[int, BitMap]]
"""(ledger, its own copy of the bitmap)."""


def bitmap_bytes(acks: AckState) -> int:
    """About how large the state is."""
    return sum(bitmap.max() // 8 + 16 for _, bitmap in acks.bitmaps())


def slices(acks: AckState) -> Iterator[Slice]:
    """The state piece by piece, from the mark-delete on; each piece is as it is when it is asked for."""
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
    """The piece as entries: one, but for a ledger whose bitmap is larger than an entry."""
    entries: list[bytes] = []
    raw = bytearray()
    for ledger_id, bitmap in piece:
        bits = bits_of_bitmap(bitmap)
        # A ledger's bits may go on in the next entry: with as many zeros before them as were said already.
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
    """`StoredAcks.part` as ledger -> bitmap. Raises MalformedRecord."""
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
    """Everything that any of them says."""
    result: dict[int, BitMap] = {}
    for state in states:
        for ledger_id, bitmap in state.items():
            known = result.get(ledger_id)
            result[ledger_id] = bitmap if known is None else known | bitmap
    return result
