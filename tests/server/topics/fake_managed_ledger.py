"""A managed ledger in memory, with the interface of `magnetar.storage.managed.managed_ledger.ManagedLedger`.

Arithmetic of positions and acknowledgements is the real one (`LedgerList`, `Cursor`); storing and reading use lists.
Appends are confirmed in the next turn of the loop, or by `confirm` when `holds_appends` is set. Every other call is
answered after a few turns, as many as the seed says; reads that are held are answered when `let_reads_go` is called.
`cached_from` says which entries are in memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.append_queue import AddDone, AddResult
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.gaps import Gaps
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.ledger_traffic import LedgerTraffic
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import (
    EntryReadFault,
    ManagedLedgerError,
    ManagedLedgerTerminated,
    NoSuchCursor,
)
from magnetar.storage.managed.managed_ledger_stats import ManagedLedgerStats
from pulsar_proto.ids import EARLIEST, LATEST, Position
from pulsar_proto.latency_summary import LatencySummary

HEADER = b"h" * 36
"""Stands for the entry's header and digest."""


async def pause(random: Random) -> None:
    """Lets others run for one to three turns of the loop."""
    for _ in range(random.randint(1, 3)):
        await asyncio.sleep(0)


class FakeCursorStore:
    """Stores after a few turns and counts how often. It waits while `gate` is set, and fails with `failure` if there is
    one."""

    def __init__(self, properties: Mapping[str, str], random: Random) -> None:
        self._random = random
        self.cursor_properties = properties
        self.ledger_id = -1
        self.last_active_ms = 0
        self.ledger_switched_ms = 0
        self.ledger_last_entry = -1
        self.stored: list[Position] = []
        self.gate: asyncio.Event | None = None
        self.failure: ManagedLedgerError | None = None
        self.deleted = False

    def append_now(
        self, acks: AckState, properties: Mapping[str, int], done: Callable[[LedgerError | None], None]
    ) -> bool:
        return False

    async def persist(self, acks: AckState, properties: Mapping[str, int], failed: LedgerError | None = None) -> None:
        await pause(self._random)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.stored.append(acks.mark_delete)

    async def close(self, acks: AckState, properties: Mapping[str, int], *, changed: bool) -> None:
        await self.persist(acks, properties)

    async def set_cursor_properties(
        self, acks: AckState, properties: Mapping[str, int], cursor_properties: Mapping[str, str]
    ) -> None:
        await self.persist(acks, properties)
        self.cursor_properties = cursor_properties

    async def delete(self) -> None:
        await pause(self._random)
        if self.failure is not None:
            raise self.failure
        self.deleted = True


class FakeManagedLedger:
    def __init__(self, name: str = "public/default/persistent/t", first_ledger_id: int = 10, seed: int = 0) -> None:
        self.name = self.label = name
        self.random = Random(seed)
        self.ledgers = LedgerList()
        self.ledgers.add(first_ledger_id)
        self.entries: dict[int, list[bytes]] = {first_ledger_id: []}
        self.cursors: dict[str, Cursor] = {}
        self.stores: dict[str, FakeCursorStore] = {}
        self.released: list[Cursor] = []
        self.held: list[Position] = []
        self.properties: dict[str, str] = {}
        self.terminated: Position | None = None
        self.active: set[Cursor] = set()
        self.cached_from = EARLIEST
        self.holds_appends = False
        self.append_failure: ManagedLedgerError | None = None
        self.open_failure: ManagedLedgerError | None = None
        self.opened = 0
        self.read_failures = 0
        self.reads: list[tuple[Position, int]] = []
        self.read_gate: asyncio.Event | None = None
        self.closed = False
        self._waiting: deque[tuple[list[bytes], AddDone]] = deque()
        self._listeners: list[Callable[[], None]] = []
        self.now_ms = 0
        self.gaps = Gaps()
        self.state = AppendState.OPEN
        self.traffic = LedgerTraffic(LatencySummary())
        self.config = ManagedLedgerConfig()

    # ---- for tests

    def append_now(self, payloads: list[bytes]) -> None:
        """Appends entries that are confirmed on return, as if another owner had stored them before."""
        ledger_id = self.ledgers.current_id
        self.entries[ledger_id] += [HEADER + payload for payload in payloads]
        self.ledgers.grow(len(payloads), sum(map(len, payloads)))

    def confirm(self) -> None:
        """Stores the oldest group that waits, or fails it with `append_failure`."""
        payloads, done = self._waiting.popleft()
        if self.terminated is not None:
            done(AddResult([], ManagedLedgerTerminated(self.name)))
        elif self.append_failure is not None:
            done(AddResult([], self.append_failure))
        else:
            ledger_id, first = self.ledgers.current_id, self.ledgers.current_entries
            self.append_now(payloads)
            done(AddResult([(ledger_id, first, len(payloads))], None))
            for listener in list(self._listeners):
                listener()

    @property
    def groups_waiting(self) -> int:
        return len(self._waiting)

    def roll_now(self) -> None:
        """Closes the current ledger and opens the next one."""
        ledger_id = self.ledgers.current_id
        self.ledgers.close_current(closed_ms=1)
        self.ledgers.add(ledger_id + 1)
        self.entries[ledger_id + 1] = []

    def trim_now(self, ledger_id: int) -> None:
        self.ledgers.remove({ledger_id})
        del self.entries[ledger_id]
        for cursor in self.cursors.values():
            cursor.forget_before(ledger_id + 1)

    def let_reads_go(self) -> None:
        assert self.read_gate is not None
        self.read_gate.set()
        self.read_gate = None

    # ---- ManagedLedger

    @property
    def last_confirmed(self) -> Position:
        return self.ledgers.last_confirmed

    @property
    def first_position(self) -> Position:
        return self.ledgers.first_position

    @property
    def number_of_entries(self) -> int:
        return self.ledgers.entries

    @property
    def total_size(self) -> int:
        return self.ledgers.size

    def next_position(self, position: Position) -> Position:
        return self.ledgers.next_position(position)

    def previous_position(self, position: Position) -> Position:
        return self.ledgers.previous_position(position)

    def entries_between(self, after: Position, upto: Position) -> int:
        return self.ledgers.entries_between(after, upto)

    def entry_at(self, rank: int) -> Position:
        return self.ledgers.entry_at(rank)

    def size_after(self, position: Position) -> int:
        return self.ledgers.size_after(position)

    def is_after_last(self, position: Position) -> bool:
        return position > self.ledgers.last_confirmed

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None:
        assert payloads
        self._waiting.append((payloads, done))
        if not self.holds_appends:
            asyncio.get_running_loop().call_soon(self.confirm)

    def on_fenced(self, callback: Callable[[ManagedLedgerError], None]) -> None:
        """Ignores the callback, because nobody takes this ledger over."""

    def on_append(self, callback: Callable[[], None]) -> None:
        self._listeners.append(callback)

    def not_on_append(self, callback: Callable[[], None]) -> None:
        self._listeners.remove(callback)

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None:
        entries = self.entries.get(position.ledger_id, [])
        if position < self.cached_from or not 0 <= position.entry_id < len(entries):
            return None
        return self._run(position, max_entries, max_bytes)

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun:
        assert max_entries > 0
        self.reads.append((position, max_entries))
        gate = self.read_gate
        await (self._pause() if gate is None else gate.wait())
        if self.read_failures:
            self.read_failures -= 1
            raise EntryReadFault(self.name, f"entry {position}")
        start = self.ledgers.at_or_after(position)
        return EntryRun(*self.ledgers.end, [], 0) if start is None else self._run(start, max_entries, max_bytes)

    def _run(self, start: Position, max_entries: int, max_bytes: int) -> EntryRun:
        taken: list[bytes] = []
        for entry in self.entries[start.ledger_id][start.entry_id : start.entry_id + max_entries]:
            if taken and sum(map(len, taken)) + len(entry) > max_bytes:
                break
            taken.append(entry)
        return EntryRun(start.ledger_id, start.entry_id, taken, len(HEADER))

    async def find_first(self, predicate: Callable[[bytes], bool], after: Position = EARLIEST) -> Position:
        await self._pause()
        for ledger_id in sorted(self.entries):
            for entry_id, entry in enumerate(self.entries[ledger_id]):
                if (ledger_id, entry_id) > after and predicate(entry[len(HEADER) :]):
                    return Position(ledger_id, entry_id)
        return self.ledgers.end

    metadata_is_away = False

    async def open_ledger(self) -> None:
        self.opened += 1
        await self._pause()
        if self.open_failure is not None:
            raise self.open_failure

    async def terminate(self) -> Position:
        await self._pause()
        self.terminated = self.last_confirmed
        return self.terminated

    async def set_properties(self, updates: Mapping[str, str | None]) -> None:
        await self._pause()
        if self.open_failure is not None:
            raise self.open_failure
        merged = {**self.properties, **updates}
        self.properties = {key: value for key, value in merged.items() if value is not None}

    async def open_cursor(
        self, name: str, initial: Position = LATEST, properties: Mapping[str, str] | None = None
    ) -> Cursor:
        await self._pause()
        if name not in self.cursors:
            self.stores[name] = FakeCursorStore(properties or {}, self.random)
            self.cursors[name] = self._cursor(name, initial, self.stores[name])
        return self.cursors[name]

    def new_non_durable_cursor(self, start: Position) -> Cursor:
        return self._cursor("", start, None)

    def _cursor(self, name: str, start: Position, store: FakeCursorStore | None) -> Cursor:
        acks = AckState(self.ledgers, EARLIEST)
        acks.reset(self.ledgers.start_of(start))
        return Cursor(
            name,
            name,
            self.ledgers,
            acks,
            cast(Any, store),
            rate_limit=0,
            clocks=Clocks(lambda: self.now_ms),
            on_dirty=lambda cursor: None,
            owner=self,
        )

    def request_trim(self) -> None:
        """Does nothing, because this log keeps all entries."""

    async def trim_ended(self) -> None:
        await self._pause()

    def fence(self, error: ManagedLedgerError) -> None:
        """Does nothing: no other owner takes this log over."""

    def release(self, cursor: Cursor) -> None:
        self.released.append(cursor)

    async def delete_cursor(self, name: str) -> None:
        await self._pause()
        if name not in self.cursors:
            raise NoSuchCursor(self.name, name)
        await self.cursors[name].delete()
        del self.cursors[name]

    def hold(self, name: str, position: Position) -> Callable[[], None]:
        self.held.append(position)
        return lambda: self.held.remove(position)

    def activate(self, cursor: Cursor) -> None:
        self.active.add(cursor)

    def deactivate(self, cursor: Cursor) -> None:
        self.active.discard(cursor)

    def configure(self, config: ManagedLedgerConfig) -> None:
        self.config = config

    def place_on(self, groups: object) -> None:
        """Has no effect: there are no bookies."""

    async def close(self) -> None:
        await self._pause()
        self.closed = True

    async def _pause(self) -> None:
        await pause(self.random)

    def stats(self) -> ManagedLedgerStats:
        ledgers = self.ledgers
        return ManagedLedgerStats(
            AppendState.OPEN,
            ledgers.entries,
            ledgers.entries,
            ledgers.size,
            ledgers.current_id,
            ledgers.current_entries,
            ledgers.current_size,
            1_000,
            0,
            len(self._waiting),
            ledgers.last_confirmed,
            tuple(ledgers.infos),
            None,
        )
