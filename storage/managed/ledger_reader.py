"""The reading end of a managed ledger: from the tail cache, the ledger being written, or a closed ledger.

Entries that are lost on every replica leave a gap. The ends of the gap are found once, by reading the entries around
the gap one by one. With autoSkipNonRecoverableData reading goes on after the gap. Without that setting every read in
the gap raises EntriesLost, until the entry can be read again.

Source of the skipping: OpReadEntry.internalReadEntriesFailed. Apache's broker passes over as many entries as it wanted
to read at once; here only lost entries are passed over.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchEntry, NoSuchLedger
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.gaps import Gap, Gaps
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.ledger_traffic import LedgerTraffic
from magnetar.storage.managed.managed_ledger_errors import EntriesLost, EntryReadFault, LedgerGone, ManagedLedgerError
from magnetar.storage.managed.part_owner import PartOwner
from magnetar.storage.managed.shared_by_ledgers import SharedByLedgers
from pulsar_proto.ids import EARLIEST, Position

logger = logging.getLogger(__name__)

PROBED_AT_ONCE = 16
"""How many entries beside a lost entry are read at once to find the end of the gap."""

SCANNED_ENTRIES = 1_000
SCANNED_BYTES = 5 * 1024 * 1024
"""How many entries and bytes one read of `scan` asks for at most."""


class LedgerReader:
    """Reads the entries of one managed ledger."""

    __slots__ = ("_cache", "_handles", "_label", "_ledgers", "_owner", "_probing", "_traffic", "gaps")

    def __init__(
        self,
        label: str,
        ledgers: LedgerList,
        shared: SharedByLedgers,
        traffic: LedgerTraffic,
        owner: PartOwner,
    ) -> None:
        self._label = label
        self._ledgers = ledgers
        self._cache = shared.cache
        self._handles = shared.handles
        self._traffic = traffic
        self._owner = owner
        self._probing: asyncio.Lock | None = None
        self.gaps = Gaps()

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None:
        """Returns entries from exactly `position` on, at least one, if they are in memory; otherwise None."""
        cache = self._cache
        bytes_before = cache.hit_bytes
        run = cache.get(position.ledger_id, position.entry_id, max_entries, max_bytes)
        if run is not None:
            self._traffic.read(len(run.entries), cache.hit_bytes - bytes_before)
        return run

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun:
        """Returns confirmed entries of one ledger, beginning with the first existing entry at or after `position`: at
        least one, at most `max_entries`, and at most `max_bytes` together unless the first one alone is larger. The run
        is empty at the end. Raises EntriesLost, EntryReadFault, LedgerGone."""
        while True:
            start = self._ledgers.at_or_after(position)
            if start is None:
                return EntryRun(*self._ledgers.end, [], 0)
            held = self.cached(start, max_entries, max_bytes)
            if held is not None:
                return held
            found = await self._run_or_gap(start, max_entries, max_bytes)
            if isinstance(found, EntryRun):
                return found
            if found is not None:
                if not self._owner.skips_lost_entries:
                    raise EntriesLost(self._label, f"{found} are lost: {found.reason}")
                found.skipped = True
                await self._owner.gap_skipped(found)
                position = found.end
            # Otherwise the ledger was trimmed meanwhile: go on with what is left.

    async def scan(self, after: Position, until_s: float) -> Position:
        """Reads all entries after `after`, so that `gaps` knows the lost ones; skips nothing. Returns the last position
        that it read. Stops before the end of the log when the loop's time reaches `until_s`. Raises EntryReadFault,
        LedgerGone."""
        loop = asyncio.get_running_loop()
        while (start := self._ledgers.at_or_after(Position(after.ledger_id, after.entry_id + 1))) is not None:
            found = await self._run_or_gap(start, SCANNED_ENTRIES, SCANNED_BYTES)
            if isinstance(found, EntryRun):
                after = Position(found.ledger_id, found.end_entry_id - 1)
            elif found is not None:
                after = Position(found.ledger_id, found.last)
            await asyncio.sleep(0)
            if loop.time() >= until_s:
                break
        return after

    async def find_first(self, predicate: Callable[[bytes], bool], after: Position = EARLIEST) -> Position:
        """Returns the first entry after `after` for which `predicate` holds, or the position after the last entry when
        there is none.

        `predicate` is called with payloads as they were appended. If it holds for an entry, it must hold for all
        entries after that one, because this is a binary search: it reads log2(entries) single entries. Raises the
        errors of `read`.
        """
        ledgers = self._ledgers
        found: Position | None = None
        before, upto = after, ledgers.last_confirmed
        while (count := ledgers.entries_between(before, upto)) > 0:
            # Positions and not ranks are kept across the read, because the list may be trimmed meanwhile.
            middle = ledgers.entry_at(ledgers.rank(before) + (count - 1) // 2)
            run = await self.read(middle, 1, 1)
            read = Position(run.ledger_id, run.first_entry_id)
            if not run.entries or read > upto:
                # Everything from `middle` on is trimmed or lost.
                upto = ledgers.previous_position(middle)
                continue
            middle = read
            if predicate(run.entries[0][run.payload_offset :]):
                found = middle
                upto = ledgers.previous_position(middle)
            else:
                before = middle
        return found or ledgers.next_position(before)

    async def _run_or_gap(self, start: Position, max_entries: int, max_bytes: int) -> EntryRun | Gap | None:
        """Returns the entries from `start` on, or the gap that `start` is in, or None when the ledger was trimmed
        meanwhile."""
        known = self.gaps.at(start) if self.gaps else None
        if known is not None and known.skipped and self._owner.skips_lost_entries:
            return known
        try:
            run = await self._fetch(start, max_entries, max_bytes)
        except LedgerError as error:
            if start.ledger_id not in self._ledgers:
                return None
            if not error.is_lost:
                raise self._fault(start, error) from error
            lost = error
        else:
            if known is not None and known in self.gaps.known:
                logger.info("%s: %s can be read again", self._label, known)
                self.gaps.remove(known)
            return run
        return await self._gap_at(start, lost)

    async def _gap_at(self, lost: Position, error: LedgerError) -> Gap | None:
        """Finds the ends of the gap around a lost entry, and remembers the gap. Returns None when the ledger was
        trimmed meanwhile. Raises EntryReadFault when one of the entries around the lost entry cannot be read for
        another reason."""
        probing = self._probing
        if probing is None:
            probing = self._probing = asyncio.Lock()
        async with probing:
            known = self.gaps.at(lost)
            if known is not None:
                return known
            ledger_id, entry_id = lost
            last = self._ledgers.last_entry(ledger_id)
            if last is None:
                return None
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, NoSuchLedger):
                gap = Gap(ledger_id, 0, last, reason)
            else:
                behind = await self._count_lost(ledger_id, range(entry_id + 1, last + 1))
                before = await self._count_lost(ledger_id, range(entry_id - 1, -1, -1))
                gap = Gap(ledger_id, entry_id - before, entry_id + behind, reason)
            self.gaps.add(gap)
            skips = self._owner.skips_lost_entries
            what = "skipped" if skips else "who reads there waits, autoSkipNonRecoverableData is off"
            logger.warning("%s: %s are lost; %s: %s", self._label, gap, what, reason)
            return gap

    async def _count_lost(self, ledger_id: int, entry_ids: range) -> int:
        """Returns how many of the entries are lost before the first one that can be read."""
        for at in range(0, len(entry_ids), PROBED_AT_ONCE):
            probed = entry_ids[at : at + PROBED_AT_ONCE]
            answers = await asyncio.gather(
                *(self._is_lost(Position(ledger_id, entry_id)) for entry_id in probed), return_exceptions=True
            )
            for count, is_lost in enumerate(answers, at):
                if isinstance(is_lost, BaseException):
                    raise is_lost
                if not is_lost:
                    return count
        return len(entry_ids)

    async def _is_lost(self, position: Position) -> bool:
        if position.ledger_id not in self._ledgers:
            return False
        try:
            await self._fetch(position, 1, 1)
        except LedgerError as error:
            if not error.is_lost:
                raise self._fault(position, error) from error
            return True
        return False

    async def _fetch(self, start: Position, max_entries: int, max_bytes: int) -> EntryRun:
        """Reads entries from bookies. Raises LedgerError."""
        began_s = time.monotonic()
        try:
            run = await self._read_from_bookies(start, max_entries, max_bytes)
        except LedgerError:
            self._traffic.read_errors += 1
            raise
        size = sum(map(len, run.entries)) - run.payload_offset * len(run.entries)
        self._traffic.read(len(run.entries), size)
        self._traffic.entries_missed += len(run.entries)
        self._cache.missed(len(run.entries), size, time.monotonic() - began_s)
        return run

    async def _read_from_bookies(self, start: Position, max_entries: int, max_bytes: int) -> EntryRun:
        ledger_id, first = start
        current = self._owner.current_handle
        last = self._ledgers.last_entry(ledger_id)
        assert last is not None
        last = min(last, first + max_entries - 1)
        if current is not None and current.ledger_id == ledger_id:
            return EntryRun(ledger_id, first, await current.read(first, last, max_bytes), current.payload_offset)
        info = self._ledgers.info(ledger_id)
        if info is not None and info.offloaded_only:
            raise LedgerGone(self._label, f"ledger {ledger_id} is only in offloaded storage, which is not supported")
        handle = await self._handles.get(ledger_id)
        if first > handle.last_add_confirmed:
            shorter = NoSuchEntry(f"ledger {ledger_id} was closed at entry {handle.last_add_confirmed}")
            shorter.is_lost = True
            raise shorter
        last = min(last, handle.last_add_confirmed)
        return EntryRun(ledger_id, first, await handle.read(first, last, max_bytes), handle.payload_offset)

    def _fault(self, start: Position, error: LedgerError) -> ManagedLedgerError:
        self._handles.drop(start.ledger_id)
        return EntryReadFault(self._label, f"entry {start}: {type(error).__name__}: {error}")
