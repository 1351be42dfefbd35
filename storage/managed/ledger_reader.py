"""The reading end of a managed ledger: from the tail cache, the ledger being written, or a closed ledger."""

from collections.abc import Callable

from pulsar_proto.ids import EARLIEST, Position
from storage.ledger.errors import LedgerError, NoSuchLedger
from storage.ledger.handle import WriteHandle
from storage.managed.entry_run import EntryRun
from storage.managed.errors import LedgerGone, ManagedLedgerError, ReadFault
from storage.managed.ledger_list import LedgerList
from storage.managed.read_handles import ReadHandles
from storage.managed.tail_cache import TailCache


class LedgerReader:
    """`current()` is the handle of the list's current ledger."""

    def __init__(
        self,
        name: str,
        ledgers: LedgerList,
        cache: TailCache,
        handles: ReadHandles,
        current: Callable[[], WriteHandle | None],
    ) -> None:
        self._name = name
        self._ledgers = ledgers
        self._cache = cache
        self._handles = handles
        self._current = current

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None:
        """Entries from exactly `position` on if they are in memory, at least one; else None."""
        return self._cache.get(position.ledger_id, position.entry_id, max_entries, max_bytes)

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun:
        """Confirmed entries of one ledger from the first existing one at or after `position` on: at least one, at most
        `max_entries`, of `max_bytes` together unless one alone is larger. Empty at the end. Raises ReadFault,
        LedgerGone."""
        while True:
            start = self._ledgers.at_or_after(position)
            if start is None:
                return EntryRun(*self._ledgers.end, [], 0)
            held = self._cache.get(start.ledger_id, start.entry_id, max_entries, max_bytes)
            if held is not None:
                return held
            try:
                return await self._fetch(start, max_entries, max_bytes)
            except LedgerError as error:
                if start.ledger_id in self._ledgers:
                    raise self._fault(start, error) from error
                # Trimmed meanwhile: on to what is left.

    async def find_first(self, predicate: Callable[[bytes], bool], after: Position = EARLIEST) -> Position:
        """The first entry behind `after` for whose payload (the bytes that were appended) `predicate` holds, where it
        holds for all entries after the first such; the position after the last entry if for none. A binary search:
        reads log2(entries) single entries. Raises what `read` raises."""
        ledgers = self._ledgers
        found: Position | None = None
        before, upto = after, ledgers.last_confirmed
        while (count := ledgers.entries_between(before, upto)) > 0:
            # Positions, not ranks, are kept over the read: the list may be trimmed meanwhile.
            middle = ledgers.entry_at(ledgers.rank(before) + (count - 1) // 2)
            run = await self.read(middle, 1, 1)
            if not run.entries:
                break
            middle = Position(run.ledger_id, run.first_entry_id)
            if predicate(run.entries[0][run.payload_offset :]):
                found = middle
                upto = ledgers.previous_position(middle)
            else:
                before = middle
        return found or ledgers.next_position(before)

    async def _fetch(self, start: Position, max_entries: int, max_bytes: int) -> EntryRun:
        ledger_id, first = start
        current = self._current()
        last = self._ledgers.last_entry(ledger_id)
        assert last is not None
        last = min(last, first + max_entries - 1)
        if current is not None and current.ledger_id == ledger_id:
            return EntryRun(ledger_id, first, await current.read(first, last, max_bytes), current.payload_offset)
        info = self._ledgers.info(ledger_id)
        if info is not None and info.offloaded_only:
            raise LedgerGone(self._name, f"ledger {ledger_id} is only in offloaded storage, which is not supported")
        handle = await self._handles.get(ledger_id)
        return EntryRun(ledger_id, first, await handle.read(first, last, max_bytes), handle.payload_offset)

    def _fault(self, start: Position, error: LedgerError) -> ManagedLedgerError:
        message = f"entry {start}: {type(error).__name__}: {error}"
        if isinstance(error, NoSuchLedger):
            return LedgerGone(self._name, message)
        self._handles.drop(start.ledger_id)
        return ReadFault(self._name, message)
