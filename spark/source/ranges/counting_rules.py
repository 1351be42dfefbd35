"""Counts messages: how many of the entries behind a place fit into a batch of limited size, and where the batch ends.

Only an entry itself says how many messages it holds. `Counts` has the numbers of some entries; a `Tally` collects them
and cuts batches off their front. A batch may end inside an entry, so a limit on messages is kept exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Counts:
    """Entries in ascending order, one item an entry in each column: the entry's id, the number of its messages, its
    stored bytes and its publish time in milliseconds. An entry that only continues a chunked message has no message."""

    ledgers: Ints
    entries: Ints
    messages: Ints
    sizes: Ints
    publish_times: Ints

    def __len__(self) -> int:
        return len(self.ledgers)

    def pick(self, which: slice) -> "Counts":
        return Counts(*(getattr(self, column.name)[which] for column in fields(self)))

    def place(self, index: int) -> Bound:
        return Bound(int(self.ledgers[index]), int(self.entries[index]))


def joined(parts: Sequence[Counts]) -> Counts:
    """Returns the entries of all parts, one part after the other."""
    columns = [[getattr(part, column.name) for part in parts] for column in fields(Counts)]
    return Counts(*(np.concatenate([np.zeros(0, np.int64), *column]) for column in columns))


class Taken(NamedTuple):
    """A batch's part of one partition: where it ends, and what it holds."""

    end: Bound
    messages: int
    size: int


class Tally:
    """The counted entries of a partition that no batch has taken yet. `place` is the end of the last batch, and `seen`
    the last entry that was counted, or the one before the first that is to be counted."""

    def __init__(self, place: Bound) -> None:
        self.place = place
        self.seen = place.before_entry()
        self.messages_max = self.size_max = 0
        """At most this many messages and bytes wait to be taken; `waiting` has the exact numbers."""
        self._parts: list[Counts] = []

    def add(self, counts: Counts) -> None:
        """Adds entries, which follow those that were added before. The entry of `place` may be the first of them; it is
        used when some of its messages are still to be taken."""
        if len(counts):
            self.seen = max(self.seen, counts.place(-1))
            self._parts.append(self._without_taken(counts))
            self._add_up(self._parts[-1:])

    def _add_up(self, parts: Sequence[Counts]) -> None:
        self.messages_max += sum(int(part.messages.sum()) for part in parts)
        self.size_max += sum(int(part.sizes.sum()) for part in parts)

    def _without_taken(self, waiting: Counts) -> Counts:
        place = self.place
        first = place.entry + (1 if place.batch_index == WHOLE_ENTRY else 0)
        taken = (waiting.ledgers < place.ledger) | ((waiting.ledgers == place.ledger) & (waiting.entries < first))
        return waiting.pick(slice(int(np.count_nonzero(taken)), None))

    def waiting(self, upto: Bound) -> Counts:
        """Returns the counted entries up to `upto` that no batch has taken. For an entry that is taken in part, or of
        which `upto` leaves out a part, only the messages between count."""
        self._parts = [joined(self._parts)]
        ledgers, entries = self._parts[0].ledgers, self._parts[0].entries
        inside = (ledgers < upto.ledger) | ((ledgers == upto.ledger) & (entries <= upto.entry))
        found = self._parts[0].pick(slice(0, int(np.count_nonzero(inside))))
        if not len(found):
            return found
        messages = found.messages.copy()
        if found.place(-1)[:2] == upto[:2]:
            messages[-1] = min(int(messages[-1]), upto.batch_index + 1)
        messages[0] = max(0, int(messages[0]) - self._taken_of(found.place(0)))
        return replace(found, messages=messages)

    def _taken_of(self, entry: Bound) -> int:
        """Returns how many messages of an entry are taken already."""
        return self.place.batch_index + 1 if entry[:2] == self.place[:2] else 0

    def take(self, upto: Bound, messages_max: int | None, bytes_max: int | None, *, force: bool = False) -> Taken:
        """Takes the next batch, whose end is never behind `upto`: as many messages as fit into both limits (None: no
        limit). Bytes are counted in whole entries. With `force` the first entry is taken although it is longer than
        `bytes_max`, because a query would wait for ever otherwise."""
        waiting = self.waiting(upto)
        messages, sizes = np.cumsum(waiting.messages), np.cumsum(waiting.sizes)
        fitting = len(waiting) if bytes_max is None else int(np.searchsorted(sizes, bytes_max, "right"))
        fitting = max(fitting, 1) if force and len(waiting) else fitting
        whole = len(waiting) if messages_max is None else int(np.searchsorted(messages, messages_max, "right"))
        whole = min(whole, fitting)
        count, size = (int(messages[whole - 1]), int(sizes[whole - 1])) if whole else (0, 0)
        end = waiting.place(whole - 1) if whole else self.place
        if messages_max is not None and whole < fitting and count < messages_max:
            cut = waiting.place(whole)
            end = Bound(cut.ledger, cut.entry, self._taken_of(cut) + messages_max - count - 1)
            count, size = messages_max, int(sizes[whole])
        if whole == len(waiting) and self.seen[:2] >= upto[:2]:
            end = upto  # nothing is left before `upto`, even if the entry of `upto` itself is gone
        self.place = max(self.place, min(end, upto))
        self._parts = [self._without_taken(part) for part in self._parts]
        self.messages_max = self.size_max = 0
        self._add_up(self._parts)
        return Taken(self.place, count, size)
