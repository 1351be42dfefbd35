"""Keeps the ledgers of one moment readable while a backup reads them, although the metadata may delete them meanwhile.

A ledger is deleted by the deletion of its record, and its entries stay until the garbage collector finds that out. So a
hold only has to make the collector spare the ledgers that existed at the moment, until the hold is released.
"""

import asyncio
from concurrent.futures import Executor

from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.ledger_state import LedgerStates
from magnetar.storage.bookie.write_cache import WriteCache


class LedgerHold:
    """The ledgers of one moment. `ready` is awaited before `last_entry_ids` is used; it raises IndexFailure."""

    def __init__(self, ids: set[int], last_entry_ids: dict[int, int]) -> None:
        self.ids = ids
        self.last_entry_ids = last_entry_ids
        """The highest entry id of each ledger that had an entry at the moment."""
        self.ready: asyncio.Future[None]


class LedgerHolds:
    """All holds of one bookie. The loop's thread calls every method."""

    def __init__(self, states: LedgerStates, cache: WriteCache, index: EntryIndex, flush_executor: Executor) -> None:
        self._states = states
        self._cache = cache
        self._index = index
        self._flush_executor = flush_executor
        self._active: set[LedgerHold] = set()

    def take(self) -> LedgerHold:
        """Holds the ledgers as they are at this moment. The caller calls `release` in the end, whatever happens.

        The flush thread does one piece of work after the other. What it has added to the index before it comes to
        `_read_index` was in the cache at this moment, and later entries are added behind that call. So the hold names
        no entry that was added after this moment.
        """
        last_entry_ids: dict[int, int] = {}
        for half in (self._cache.flushing, self._cache.active):
            if half is not None:
                for ledger_id, entries in half.ledgers.items():
                    last_entry_ids[ledger_id] = max(entries.last, last_entry_ids.get(ledger_id, entries.last))
        hold = LedgerHold(self._states.ids(), last_entry_ids)
        hold.ready = asyncio.get_running_loop().run_in_executor(self._flush_executor, self._read_index, hold)
        self._active.add(hold)
        return hold

    def release(self, hold: LedgerHold) -> None:
        """Lets the garbage collector delete the ledgers again. A second call has no effect."""
        self._active.discard(hold)

    def spared(self) -> set[int]:
        """Returns the ledgers that the garbage collector must not delete now."""
        return set().union(*(hold.ids for hold in self._active))

    def master_key(self, ledger_id: int) -> bytes:
        """Returns the key with which clients write to the ledger; empty when it is unknown."""
        state = self._states.get(ledger_id)
        return b"" if state is None or state.master_key is None else state.master_key

    def _read_index(self, hold: LedgerHold) -> None:
        """Completes the last entries from the index, on the flush thread. Also a ledger with entries in the cache may
        have later ones in the index, because recovery adds entries again."""
        known = hold.last_entry_ids
        for ledger_id, last in self._index.last_entry_ids(sorted(hold.ids)):
            known[ledger_id] = max(last, known.get(ledger_id, last))
