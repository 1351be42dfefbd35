"""Where a record is in a log whose entries hold one record or several. Does no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

WORD_BITS = 64


class LogPlace(NamedTuple):
    """The place of a record in a log."""

    ledger_id: int
    entry_id: int
    slot: int = -1
    """The record's index in an entry of several records, or -1 for an entry of one record, batch or not."""
    batch_size: int = 1


def places_in(ledger_id: int, entry_id: int, records: int) -> Iterator[LogPlace]:
    """Yields the places of all records of one entry."""
    if records == 1:
        yield LogPlace(ledger_id, entry_id)
        return
    for slot in range(records):
        yield LogPlace(ledger_id, entry_id, slot, records)


def acks_of(places: Iterable[LogPlace]) -> list[tuple[int, int, Sequence[int] | None]]:
    """Returns what a cursor has to acknowledge so that these records are deleted, in the order of the log: whole
    entries, or one index of a batch each time (PIP-54: a bit that is 0 is acknowledged)."""
    return [(place.ledger_id, place.entry_id, _ack_set(place)) for place in sorted(places)]


def is_left(ack_set: Sequence[int], place: LogPlace) -> bool:
    """Returns whether a record of a batch is not deleted, by the words of the entry's ack set."""
    word, bit = divmod(max(place.slot, 0), WORD_BITS)
    return word < len(ack_set) and bool(ack_set[word] >> bit & 1)


def _ack_set(place: LogPlace) -> Sequence[int] | None:
    if place.slot < 0:
        return None
    left = (1 << place.batch_size) - 1 & ~(1 << place.slot)
    words = -(-place.batch_size // WORD_BITS)
    return [left >> WORD_BITS * word & (1 << WORD_BITS) - 1 for word in range(words)]
