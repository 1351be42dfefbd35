"""Holes: entries that are not acknowledged although later entries are. Pure."""

from collections.abc import Iterator
from itertools import islice

from pyroaring import BitMap

from magnetar.storage.managed.ack_state import AckRange, AckState, Extents
from magnetar.storage.managed.bitmap_ranges import range_ends
from pulsar_proto.ids import LATEST, Position


def last_acked(acks: AckState) -> Position | None:
    """Returns the last acknowledged entry beyond the mark-delete, or None when there is none."""
    last = None
    for ledger_id, bitmap in acks.bitmaps():
        last = Position(ledger_id, bitmap.max())
    return last


def holes(acks: AckState, extents: Extents, before: Position) -> Iterator[tuple[int, BitMap]]:
    """Yields (ledger, its entries in holes) in order. Entries at or after `before` are left out."""
    end = last_acked(acks)
    if end is None:
        return
    end = min(end, before)
    ledger_id, first = acks.mark_delete.ledger_id, acks.mark_delete.entry_id + 1
    while ledger_id <= end.ledger_id:
        last = extents.last_entry(ledger_id)
        stop = 0 if last is None else last + 1
        if ledger_id == end.ledger_id:
            stop = min(stop, end.entry_id)
        if first < stop:
            missing = BitMap(range(max(first, 0), stop))
            acked = acks.bitmap_of(ledger_id)
            if acked is not None:
                missing -= acked
            if missing:
                yield ledger_id, missing
        following = extents.next_ledger(ledger_id)
        if following is None:
            return
        ledger_id, first = following, 0


def first_ranges(acks: AckState, extents: Extents, at_most: int) -> list[AckRange]:
    """Returns the first `at_most` ranges of entries in holes."""
    ranges = (each for ledger_id, entries in holes(acks, extents, LATEST) for each in ranges_of(ledger_id, entries))
    return list(islice(ranges, at_most))


def ranges_of(ledger_id: int, entries: BitMap) -> Iterator[AckRange]:
    """Yields the runs of consecutive entries of a bitmap."""
    for first, last in zip(*range_ends(entries), strict=True):
        yield AckRange(ledger_id, first, last)
