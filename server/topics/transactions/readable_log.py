"""A topic's log as far as it may be read: up to the first message of the oldest open transaction.

Dispatchers and compaction read through this view in place of the managed ledger, so the methods have the names of the
methods of `ManagedLedger`.
"""

from typing import Protocol

from magnetar.server.topics.transactions.buffer_rules import OpenTransactions
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.ids import Position


class ReadableLog(Protocol):
    """The methods of a managed ledger that dispatchers and compaction use to read."""

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def first_position(self) -> Position: ...

    def next_position(self, position: Position) -> Position: ...

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None: ...

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun: ...


class CommittedLog:
    """Implements `ReadableLog`. Its last entry is the last one that may be read now; this entry only ever moves
    forward."""

    __slots__ = ("_ledger", "transactions")

    def __init__(self, ledger: ReadableLog) -> None:
        """`ledger` is the topic's managed ledger."""
        self._ledger = ledger
        self.transactions: OpenTransactions | None = None
        """The topic's transactions; None until the topic has one."""

    @property
    def _bound(self) -> Position | None:
        return None if self.transactions is None else self.transactions.bound

    @property
    def last_confirmed(self) -> Position:
        return self._bound or self._ledger.last_confirmed

    @property
    def first_position(self) -> Position:
        return self._ledger.first_position

    def next_position(self, position: Position) -> Position:
        return self._ledger.next_position(position)

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None:
        """The caller asks for entries up to `last_confirmed` only."""
        run = self._ledger.cached(position, max_entries, max_bytes)
        bound = self._bound
        return run if run is None or bound is None else _up_to(bound, run)

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun:
        """Returns an empty run when there is no entry that may be read at or after `position`. Raises the errors of
        `ManagedLedger.read`."""
        run = await self._ledger.read(position, max_entries, max_bytes)
        bound = self._bound
        return run if bound is None else _up_to(bound, run)


def _up_to(bound: Position, run: EntryRun) -> EntryRun:
    """Returns the entries of the run up to and including `bound`."""
    if run.ledger_id < bound.ledger_id or (run.ledger_id == bound.ledger_id and run.end_entry_id <= bound.entry_id + 1):
        return run
    count = max(0, bound.entry_id + 1 - run.first_entry_id) if run.ledger_id == bound.ledger_id else 0
    return EntryRun(run.ledger_id, run.first_entry_id, run.entries[:count], run.payload_offset)
