"""What a subscription has acknowledged: a mark-delete position, holes beyond it, and half-acknowledged batches.

Pure. Everything at or before the mark-delete is acknowledged; the mark-delete stands as far forward as that allows,
across ends of ledgers. Entries acknowledged beyond it are one bitmap per ledger; entries of which only some batch
indexes are acknowledged are one integer each, bit k = index k, 1 = still to be consumed (facts 5.4).

Only existing entries can be acknowledged: `Extents` says which exist. Positions that do not exist are ignored.

Source: ManagedCursorImpl.asyncDelete, setAcknowledgedPosition; PIP-54 for batch indexes.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyroaring import BitMap

from pulsar_proto.ids import Position

ENTRY_ID_END = 2**32
"""Bitmaps are of 32 bits: a ledger has fewer entries than this."""

WORD_MASK = 2**64 - 1


class Extents(Protocol):
    """Which entries exist. `magnetar.storage.managed.ledger_list.LedgerList` is one."""

    def last_entry(self, ledger_id: int) -> int | None:
        """-1: empty; None: no such ledger."""

    def next_ledger(self, ledger_id: int) -> int | None:
        """The first ledger after it that has entries."""

    def last_before(self, ledger_id: int) -> Position | None:
        """The last entry in ledgers before it."""


class AckRange(NamedTuple):
    """Consecutive acknowledged entries of one ledger, beyond the mark-delete."""

    ledger_id: int
    first: int
    last: int


class AckState:
    """See the module's text. `revision` grows with every change, so that two states are equal if theirs are."""

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
    def acked_beyond(self) -> int:
        """Entries acknowledged beyond the mark-delete."""
        return sum(map(len, self._acked.values()))

    @property
    def is_plain(self) -> bool:
        """Neither holes nor half-acknowledged batches: the mark-delete says all."""
        return not self._acked and not self._partial

    @property
    def partial(self) -> dict[tuple[int, int], int]:
        """(ledger, entry) -> indexes still to be consumed, as bits. Not to be changed by the caller."""
        return self._partial

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        if ledger_id <= self._ledger and (ledger_id < self._ledger or entry_id <= self._entry):
            return True
        bitmap = self._acked.get(ledger_id)
        return bitmap is not None and entry_id in bitmap

    def ack_set_of(self, ledger_id: int, entry_id: int) -> list[int] | None:
        """Words for MESSAGE.ack_set (signed, 1 = still to be consumed); None when no index was acknowledged."""
        if not self._partial:
            return None
        mask = self._partial.get((ledger_id, entry_id))
        return None if mask is None else words_of_mask(mask)

    def next_unacked(self, position: Position) -> Position:
        """The first existing entry at or after `position` that is not acknowledged; at the end, the place after the
        last entry of the last ledger that was looked at."""
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
        """The parts of entries first .. first+count-1 that are not acknowledged, as (first entry id, count)."""
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
        """How many of `entries` are not acknowledged."""
        if ledger_id < self._ledger:
            return 0
        count = len(entries)
        if ledger_id == self._ledger and self._entry >= 0:
            count -= entries.rank(self._entry)
        bitmap = self._acked.get(ledger_id)
        return count if bitmap is None else count - bitmap.intersection_cardinality(entries)

    def ranges(self) -> Iterator[AckRange]:
        """The acknowledged ranges beyond the mark-delete, in order."""
        for ledger_id, firsts, lasts in self.range_ends():
            for first, last in zip(firsts, lasts, strict=True):
                yield AckRange(ledger_id, first, last)

    def range_ends(self) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        """The same ranges ledger by ledger: (ledger, first entries, last entries)."""
        for ledger_id in sorted(self._acked):
            bitmap = self._acked[ledger_id]
            yield ledger_id, (bitmap - bitmap.shift(1)).to_array(), (bitmap - bitmap.shift(-1)).to_array()

    @property
    def number_of_ranges(self) -> int:
        return sum(len(bitmap - bitmap.shift(1)) for bitmap in self._acked.values())

    def bitmaps(self) -> Iterator[tuple[int, BitMap]]:
        """(ledger, bitmap of acknowledged entries beyond the mark-delete), in order. Not to be changed."""
        for ledger_id in sorted(self._acked):
            yield ledger_id, self._acked[ledger_id]

    def bitmap_of(self, ledger_id: int) -> BitMap | None:
        """Of acknowledged entries beyond the mark-delete; None without any. Not to be changed."""
        return self._acked.get(ledger_id)

    # ---- changes; each returns how many entries became acknowledged, or whether anything changed

    def ack(self, positions: Iterable[tuple[int, int, Sequence[int] | None]]) -> int:
        """Acknowledges entries, or batch indexes of them (ack_set words, 1 = still to be consumed).

        Returns how many entries became acknowledged as a whole. Positions that are acknowledged already or do not
        exist are ignored.
        """
        added = 0
        batch_changed = False
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
        """Acknowledges all entries up to and including this one; with an ack_set only those before it, and of it the
        indexes that the set says. False, and nothing changed, when that is nothing new or the entry does not exist."""
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
        """Back or forth: the next entry to be consumed is the first one at or after `position`; with an ack_set only
        the indexes it names of that entry. Everything acknowledged beyond is forgotten (facts 5.6)."""
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
        """Ledgers before `ledger_id` were deleted: what does not exist need not be consumed, so a mark-delete there
        moves on if the first entry that is left is acknowledged."""
        for gone in [known for known in self._acked if known < ledger_id]:
            del self._acked[gone]
            self.revision += 1
        if self._partial:
            self._partial = {key: mask for key, mask in self._partial.items() if key[0] >= ledger_id}
        if self._ledger < ledger_id:
            self._advance()

    def restore(self, acked: Mapping[int, BitMap], partial: Iterable[tuple[Position, Sequence[int]]]) -> None:
        """Adds what was stored beside the mark-delete. What does not exist any more is left out."""
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
        """Marks existing entries of one ledger, at least one; the caller advances. Returns how many were new."""
        added = 0
        if ledger_id == self._ledger:
            following = self._entry + 1
            if len(entry_ids) == 1 and entry_ids[0] == following and ledger_id not in self._acked:
                self._entry = following
                self._partial.pop((ledger_id, following), None)
                return 1
            entry_ids = [entry_id for entry_id in entry_ids if entry_id >= following]
            if not entry_ids:
                return 0
        bitmap = self._acked.get(ledger_id)
        if bitmap is None:
            bitmap = self._acked[ledger_id] = BitMap(entry_ids)
            added = len(bitmap)
        else:
            added = -len(bitmap)
            bitmap.update(entry_ids)
            added += len(bitmap)
        if self._partial:
            for entry_id in entry_ids:
                self._partial.pop((ledger_id, entry_id), None)
        return added

    def _narrow(self, ledger_id: int, entry_id: int, ack_set: Sequence[int]) -> bool:
        """ANDs the entry's remaining indexes. False: none remain, and the entry is to be acknowledged as a whole."""
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
        """Moves the mark-delete over acknowledged entries that follow it, across ends of ledgers."""
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


def first_missing(bitmap: BitMap, start: int) -> int:
    """The least number >= start that is not in the bitmap. Galloping: O(log run) range tests."""
    if start not in bitmap:
        return start
    step = 1
    while bitmap.contains_range(start, start + 2 * step):
        step *= 2
    low, high = start + step, start + 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if bitmap.contains_range(start, middle):
            low = middle
        else:
            high = middle
    return low


def next_set(bitmap: BitMap, start: int) -> int:
    """The least number >= start in the bitmap, ENTRY_ID_END when there is none."""
    try:
        found: int = bitmap.next_set_bit(start)
    except ValueError:
        return ENTRY_ID_END
    return found


def mask_of_words(words: Sequence[int]) -> int:
    """java.util.BitSet words (signed or unsigned, least significant first) as one integer."""
    if len(words) == 1:
        return words[0] & WORD_MASK
    # In one step: shifting word by word is quadratic, and a client chooses how many there are.
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *[word & WORD_MASK for word in words]), "little")


def words_of_mask(mask: int) -> list[int]:
    """The reverse: signed words, no trailing zero word."""
    count = (mask.bit_length() + 63) // 64
    return list(struct.unpack(f"<{count}q", mask.to_bytes(8 * count, "little")))
