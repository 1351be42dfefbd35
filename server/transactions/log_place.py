"""Where a record is in a log whose entries hold one record or several. Does no I/O."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

WORD_BITS = 64
_ENTRY = itemgetter(0, 1)
"""The ledger and the entry of a place."""


class LogPlace(NamedTuple):
    """The place of a record in a log."""

    ledger_id: int
    entry_id: int
    slot: int = -1
    """The record's index in an entry of several records, or -1 for an entry of one record, batch or not."""
    batch_size: int = 1


def places_in(ledger_id: int, entry_id: int, records: int) -> Iterable[LogPlace]:
    """Returns the places of all records of one entry."""
    if records == 1:
        return (LogPlace(ledger_id, entry_id),)
    return (LogPlace(ledger_id, entry_id, slot, records) for slot in range(records))


def acks_of(places: Iterable[LogPlace]) -> list[tuple[int, int, Sequence[int] | None]]:
    """Returns what a cursor has to acknowledge so that these records are deleted, in the order of the log: each entry
    as a whole, or by its indexes of a batch (PIP-54: a bit that is 0 is acknowledged)."""
    ordered = sorted(places)
    if all(place.slot < 0 for place in ordered):
        return [(place.ledger_id, place.entry_id, None) for place in ordered]
    entries = groupby(ordered, key=_ENTRY)
    return [(ledger_id, entry_id, _ack_set(of_entry)) for (ledger_id, entry_id), of_entry in entries]


def is_left(ack_set: Sequence[int], place: LogPlace) -> bool:
    """Returns whether a record of a batch is not deleted, by the words of the entry's ack set."""
    word, bit = divmod(max(place.slot, 0), WORD_BITS)
    return word < len(ack_set) and bool(ack_set[word] >> bit & 1)


def _ack_set(places: Iterable[LogPlace]) -> Sequence[int] | None:
    """Returns the ack set that deletes these records of one entry, or None for an entry of one record."""
    deleted = size = 0
    for place in places:
        if place.slot < 0:
            return None
        deleted |= 1 << place.slot
        size = place.batch_size
    left = (1 << size) - 1 & ~deleted
    words = -(-size // WORD_BITS)
    return [left >> WORD_BITS * word & (1 << WORD_BITS) - 1 for word in range(words)]
