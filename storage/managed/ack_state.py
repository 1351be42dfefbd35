"""The acknowledgements of a subscription: a mark-delete position, entries beyond it, half-acknowledged batches. Pure.

    ledger 7     0  1  2  3  4  5  6  7  8
                 ✓  ✓  ✓  ✓  ·  ✓  ✓  ·  ½      mark-delete 7:3
                          ▲     └──┘     │      _acked    {7: bitmap of 5, 6}
                     mark-delete         │      _partial  {(7, 8): 0b0110}: indexes 1 and 2 of the
                                                          batch are still to be consumed (PIP-54)

Invariants:

- Everything at or before the mark-delete is acknowledged, and the mark-delete stands as far forward as possible, also
  across the ends of ledgers.
- The bitmaps hold entries beyond the mark-delete only, and none of them is empty.
- An entry is either acknowledged, or in `_partial` with at least one bit, or neither. An acknowledgement of batch
  indexes is ANDed with the bits that are left; when no bit is left, the entry is acknowledged as a whole.
- Only entries that exist can be acknowledged: `Extents` says which entries exist. Other positions are ignored.

The common case, entries acknowledged in order, changes one integer and makes no bitmap at all (`_add`). With holes, an
acknowledgement is one bit in a compressed bitmap, and finding the next entry to deliver is a galloping search
(`bitmap_ranges.first_missing`) instead of a walk.

Source: ManagedCursorImpl.asyncDelete, setAcknowledgedPosition. How it is stored: docs/CURSORS.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyroaring import BitMap

from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask
from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END, count_ranges, first_missing, next_set, range_ends
from pulsar_proto.ids import Position


class Extents(Protocol):
    """Tells which entries exist. `ledger_list.LedgerList` implements it."""

    def last_entry(self, ledger_id: int) -> int | None:
        """Returns the ledger's last entry: -1 when it is empty, None when there is no such ledger."""

    def next_ledger(self, ledger_id: int) -> int | None:
        """Returns the first ledger after `ledger_id` that has entries, or None when there is none."""

    def last_before(self, ledger_id: int) -> Position | None:
        """Returns the last entry in the ledgers before `ledger_id`, or None when there is none."""


class AckRange(NamedTuple):
    """Consecutive entries of one ledger: acknowledged ones beyond the mark-delete (`AckState.ranges`), or
    unacknowledged ones in a hole (`ack_holes`)."""

    ledger_id: int
    first: int
    last: int


class AckState:
    """The acknowledgements of one subscription. `revision` grows with every change, so an unchanged revision means an
    unchanged state."""

    __slots__ = ("_acked", "_entry", "_extents", "_ledger", "_partial", "resets", "revision")

    def __init__(self, extents: Extents, mark_delete: Position) -> None:
        self._extents = extents
        self._ledger, self._entry = mark_delete
        self._acked: dict[int, BitMap] = {}
        self._partial: dict[tuple[int, int], int] = {}
        self.revision = 0
        self.resets = 0
        """How often `reset` made acknowledged entries unacknowledged."""

    # ---- questions

    @property
    def mark_delete(self) -> Position:
        return Position(self._ledger, self._entry)

    @property
    def ledger_id(self) -> int:
        """The ledger of the mark-delete."""
        return self._ledger

    @property
    def acked_beyond(self) -> int:
        """How many entries are acknowledged beyond the mark-delete."""
        return sum(map(len, self._acked.values()))

    @property
    def first_beyond(self) -> Position:
        """Returns the position after the mark-delete. There need not be an entry."""
        return Position(self._ledger, self._entry + 1)

    def acked_from(self, ledger_id: int, entry_id: int) -> int:
        """Returns how many entries at or after this position, which is beyond the mark-delete, are acknowledged."""
        count = 0
        for acked_ledger, bitmap in self._acked.items():
            if acked_ledger > ledger_id or (acked_ledger == ledger_id and entry_id <= 0):
                count += len(bitmap)
            elif acked_ledger == ledger_id:
                count += len(bitmap) - bitmap.rank(entry_id - 1)
        return count

    @property
    def is_plain(self) -> bool:
        """Whether the mark-delete says everything: no entries beyond it and no half-acknowledged batches."""
        return not self._acked and not self._partial

    @property
    def partial(self) -> dict[tuple[int, int], int]:
        """Returns a map from (ledger, entry) to the batch indexes that are still to be consumed, as bits. The caller
        must not change it."""
        return self._partial

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        if ledger_id <= self._ledger and (ledger_id < self._ledger or entry_id <= self._entry):
            return True
        bitmap = self._acked.get(ledger_id)
        return bitmap is not None and entry_id in bitmap

    def ack_set_of(self, ledger_id: int, entry_id: int) -> list[int] | None:
        """Returns the words for MESSAGE.ack_set (signed, 1 = still to be consumed), or None when no index was
        acknowledged."""
        if not self._partial:
            return None
        mask = self._partial.get((ledger_id, entry_id))
        return None if mask is None else words_of_mask(mask)

    def next_unacked(self, position: Position) -> Position:
        """Returns the first existing entry at or after `position` that is not acknowledged. If there is none, it
        returns the position after the last entry of the last ledger that it searched."""
        ledger_id, entry_id = position
        if (ledger_id, entry_id) <= (self._ledger, self._entry):
            ledger_id, entry_id = self._ledger, self._entry + 1
        entry_id = max(entry_id, 0)
        while True:
            last = self._extents.last_entry(ledger_id)
            if last is not None:
                bitmap = self._acked.get(ledger_id)
                if bitmap is not None:
                    entry_id = first_missing(bitmap, entry_id)
                if entry_id <= last:
                    return Position(ledger_id, entry_id)
            following = self._extents.next_ledger(ledger_id)
            if following is None:
                return Position(ledger_id, entry_id if last is None else min(entry_id, last + 1))
            ledger_id, entry_id = following, 0

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]:
        """Returns the parts of the entries first .. first+count-1 that are not acknowledged, as (first entry id,
        count)."""
        end = first + count
        if ledger_id <= self._ledger:
            if ledger_id < self._ledger:
                return []
            first = max(first, self._entry + 1)
        bitmap = self._acked.get(ledger_id)
        if bitmap is None:
            return [(first, end - first)] if first < end else []
        runs: list[tuple[int, int]] = []
        while first < end:
            first = first_missing(bitmap, first)
            stop = min(end, next_set(bitmap, first))
            if first < stop:
                runs.append((first, stop - first))
            first = stop
        return runs

    def unacked_among(self, ledger_id: int, entries: BitMap) -> int:
        """Returns how many of `entries` are not acknowledged."""
        if ledger_id < self._ledger:
            return 0
        count = len(entries)
        if ledger_id == self._ledger and self._entry >= 0:
            count -= entries.rank(self._entry)
        bitmap = self._acked.get(ledger_id)
        return count if bitmap is None else count - bitmap.intersection_cardinality(entries)

    def ranges(self) -> Iterator[AckRange]:
        """Yields the acknowledged ranges beyond the mark-delete, in order."""
        for ledger_id, firsts, lasts in self.range_ends():
            for first, last in zip(firsts, lasts, strict=True):
                yield AckRange(ledger_id, first, last)

    def range_ends(self) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        """Yields the acknowledged ranges ledger by ledger: (ledger, first entries, last entries)."""
        for ledger_id in sorted(self._acked):
            yield ledger_id, *range_ends(self._acked[ledger_id])

    @property
    def number_of_ranges(self) -> int:
        return sum(map(count_ranges, self._acked.values()))

    def bitmaps(self) -> Iterator[tuple[int, BitMap]]:
        """Yields (ledger, its acknowledged entries beyond the mark-delete). The caller must not change them."""
        for ledger_id in sorted(self._acked):
            yield ledger_id, self._acked[ledger_id]

    def bitmap_of(self, ledger_id: int) -> BitMap | None:
        """Returns the ledger's acknowledged entries beyond the mark-delete, or None when there are none. The caller
        must not change the bitmap."""
        return self._acked.get(ledger_id)

    # ---- changes

    def ack(self, positions: Iterable[tuple[int, int, Sequence[int] | None]]) -> int:
        """Acknowledges entries, or batch indexes of them (the words of an ack set, 1 = still to be consumed).

        Returns how many entries became acknowledged as a whole. Positions that are acknowledged already or do not exist
        are ignored.
        """
        added, batch_changed = 0, False
        ledger_id, last = -1, -1
        ahead: list[int] = []
        for ledger, entry_id, ack_set in positions:
            if ledger != ledger_id:
                if ahead:
                    added += self._add(ledger_id, ahead)
                    ahead = []
                ledger_id = ledger
                known = self._extents.last_entry(ledger) if ledger >= self._ledger else None
                last = -1 if known is None else known
            if entry_id > last or entry_id < 0:
                continue
            if ack_set:
                if self.is_acked(ledger, entry_id):
                    continue
                before = self._partial.get((ledger, entry_id))
                if self._narrow(ledger, entry_id, ack_set):
                    batch_changed |= self._partial[ledger, entry_id] != before
                    continue
            ahead.append(entry_id)
        if ahead:
            added += self._add(ledger_id, ahead)
        if added or batch_changed:
            self.revision += 1
        if added and self._acked:
            self._advance()
        return added

    def ack_cumulative(self, ledger_id: int, entry_id: int, ack_set: Sequence[int] | None = None) -> bool:
        """Acknowledges this entry and all entries before it. If there is an ack set, only the batch indexes that the
        set clears are acknowledged in the entry itself; the entries before it are still acknowledged as a whole. A
        position beyond the end of a ledger that another ledger follows stands for that ledger's last entry. Returns
        False, and changes nothing, when everything is acknowledged already or the entry does not exist."""
        last = self._extents.last_entry(ledger_id)
        if last is None:
            return False
        if entry_id > last:
            if self._extents.next_ledger(ledger_id) is None:
                return False
            entry_id, ack_set = last, None
        if (ledger_id, entry_id) <= (self._ledger, self._entry):
            return False
        changed = False
        if entry_id < 0:
            ack_set = None
            ledger_id, entry_id = self._previous(ledger_id, 0)
        if ack_set and not self.is_acked(ledger_id, entry_id):
            before = self._partial.get((ledger_id, entry_id))
            if self._narrow(ledger_id, entry_id, ack_set):
                changed = self._partial[ledger_id, entry_id] != before
                ledger_id, entry_id = self._previous(ledger_id, entry_id)
        if (ledger_id, entry_id) > (self._ledger, self._entry):
            self._drop_upto(ledger_id, entry_id)
            self._ledger, self._entry = ledger_id, entry_id
            self._advance()
            changed = True
        if changed:
            self.revision += 1
        return changed

    def reset(self, position: Position, ack_set: Sequence[int] | None = None) -> None:
        """Moves the mark-delete back or forth, as a SEEK asks for: the next entry to be consumed is the first one at or
        after `position`. With an ack set, the batch indexes that the set clears count as acknowledged in the entry at
        `position`. All acknowledgements beyond the new mark-delete are forgotten."""
        self.resets += 1
        self._acked.clear()
        self._partial.clear()
        ledger_id, entry_id = position
        last = self._extents.last_entry(ledger_id)
        if last is not None:
            entry_id = min(max(entry_id, 0), last + 1)
        self._ledger, self._entry = self._previous(ledger_id, entry_id)
        exists = last is not None and 0 <= position.entry_id <= last
        if ack_set and exists and not self._narrow(ledger_id, entry_id, ack_set):
            self._add(ledger_id, [entry_id])
        self._advance()
        self.revision += 1

    def forget_before(self, ledger_id: int) -> None:
        """Called when the ledgers before `ledger_id` were deleted. Their entries need not be consumed any more, so a
        mark-delete among them moves on if the first entry that is left is acknowledged."""
        for gone in [known for known in self._acked if known < ledger_id]:
            del self._acked[gone]
            self.revision += 1
        if self._partial:
            self._partial = {key: mask for key, mask in self._partial.items() if key[0] >= ledger_id}
        if self._ledger < ledger_id:
            self._advance()

    def restore(self, acked: Mapping[int, BitMap], partial: Iterable[tuple[Position, Sequence[int]]]) -> None:
        """Adds the stored acknowledgements beyond the mark-delete. Leaves out entries that do not exist any more."""
        for ledger_id, stored in acked.items():
            last = self._extents.last_entry(ledger_id)
            if last is None or ledger_id < self._ledger:
                continue
            bitmap = stored.copy()
            bitmap.remove_range(last + 1, ENTRY_ID_END)
            if ledger_id == self._ledger:
                bitmap.remove_range(0, self._entry + 1)
            if bitmap:
                self._acked[ledger_id] = bitmap
        for (ledger_id, entry_id), words in partial:
            last = self._extents.last_entry(ledger_id)
            if last is not None and 0 <= entry_id <= last and not self.is_acked(ledger_id, entry_id):
                self._narrow(ledger_id, entry_id, words)
        self._advance()

    # ---- inside

    def _add(self, ledger_id: int, entry_ids: list[int]) -> int:
        """Marks existing entries of one ledger, at least one, as acknowledged. The caller advances the mark-delete.
        Returns how many of them were new."""
        if ledger_id == self._ledger:
            following = self._entry + 1
            count = len(entry_ids)
            in_order = entry_ids[0] == following and ledger_id not in self._acked
            if in_order and (count == 1 or entry_ids == list(range(following, following + count))):
                self._entry += count
                self._forget_partial(ledger_id, entry_ids)
                return count
            entry_ids = [entry_id for entry_id in entry_ids if entry_id >= following]
            if not entry_ids:
                return 0
        bitmap = self._acked.get(ledger_id)
        before = 0 if bitmap is None else len(bitmap)
        if bitmap is None:
            bitmap = self._acked[ledger_id] = BitMap(entry_ids)
        else:
            bitmap.update(entry_ids)
        self._forget_partial(ledger_id, entry_ids)
        return len(bitmap) - before

    def _forget_partial(self, ledger_id: int, entry_ids: list[int]) -> None:
        if self._partial:
            for entry_id in entry_ids:
                self._partial.pop((ledger_id, entry_id), None)

    def _narrow(self, ledger_id: int, entry_id: int, ack_set: Sequence[int]) -> bool:
        """ANDs `ack_set` with the entry's indexes that are still to be consumed. Returns False when no index remains;
        the caller then has to acknowledge the entry as a whole."""
        mask = mask_of_words(ack_set)
        known = self._partial.get((ledger_id, entry_id))
        if known is not None:
            mask &= known
        if mask:
            self._partial[ledger_id, entry_id] = mask
        return mask != 0

    def _previous(self, ledger_id: int, entry_id: int) -> Position:
        if entry_id > 0:
            return Position(ledger_id, entry_id - 1)
        return self._extents.last_before(ledger_id) or Position(ledger_id, -1)

    def _drop_upto(self, ledger_id: int, entry_id: int) -> None:
        for gone in [known for known in self._acked if known < ledger_id]:
            del self._acked[gone]
        bitmap = self._acked.get(ledger_id)
        if bitmap is not None:
            bitmap.remove_range(0, entry_id + 1)
            if not bitmap:
                del self._acked[ledger_id]
        if self._partial:
            mark_delete = (ledger_id, entry_id)
            self._partial = {key: mask for key, mask in self._partial.items() if key > mark_delete}

    def _advance(self) -> None:
        """Moves the mark-delete over the acknowledged entries that follow it, across the ends of ledgers."""
        ledger_id, entry_id = self._ledger, self._entry
        while True:
            bitmap = self._acked.get(ledger_id)
            if bitmap is not None:
                missing = first_missing(bitmap, entry_id + 1)
                if missing > entry_id + 1:
                    entry_id = missing - 1
                    bitmap.remove_range(0, missing)
                    if not bitmap:
                        del self._acked[ledger_id]
            last = self._extents.last_entry(ledger_id)
            if last is not None and entry_id < last:
                break
            following = self._extents.next_ledger(ledger_id)
            if following is None:
                break
            bitmap = self._acked.get(following)
            if bitmap is None or 0 not in bitmap:
                break
            self._acked.pop(ledger_id, None)
            ledger_id, entry_id = following, -1
        self._ledger, self._entry = ledger_id, entry_id
