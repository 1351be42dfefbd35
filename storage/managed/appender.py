"""The writing end of a managed ledger: it decides to which ledger entries go, and when the next ledger begins.

    IDLE ──a group comes──▶ SETTLING ──ledger made, list written──▶ OPEN
     ▲                       ▲   │                                    │ full, due, or an append failed
     └────nothing waits──────┼───┘◀───────────────────────────────────┘
                             └──▶ FENCED / TERMINATED / CLOSED (final)

In OPEN a group goes straight to the ledger. In every other state it waits in a bounded queue, and one task, `_settle`,
brings the managed ledger to the wanted state: it waits for the old ledger's appends, closes that ledger, makes a new
one if groups wait, records both ledgers in the managed ledger's list (the old one closed, the new one open) by one
compare-and-set, and then sends the queue. No entry is sent to the new ledger before that write, so the next process
that opens the managed ledger finds the ledger in the list.

After a failed append the ledger is closed at its last confirmed entry, and everything that waits fails too; the next
group tries a new ledger. In the final states everything fails, in order, through the same queue.

Source: ManagedLedgerImpl (asyncAddEntry, ledgerClosed, createComplete, updateLedgersListAfterRollover).
"""

import asyncio
import logging
from enum import Enum
from typing import Final, cast

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_errors import LedgerError, LedgerFenced
from magnetar.storage.managed import ledger_rules
from magnetar.storage.managed.append_queue import AddDone, AddResult, AppendQueue, SentGroup, is_told
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.ledger_switch import LedgerSwitch
from magnetar.storage.managed.ledger_traffic import LedgerTraffic
from magnetar.storage.managed.ledger_writer import LedgerWriter
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import (
    AppendFault,
    ManagedLedgerClosed,
    ManagedLedgerError,
    ManagedLedgerFenced,
    ManagedLedgerTerminated,
    TooManyPending,
)
from magnetar.storage.managed.metadata_access import LedgerGate
from magnetar.storage.managed.part_owner import PartOwner
from magnetar.storage.managed.shared_by_ledgers import SharedByLedgers

logger = logging.getLogger(__name__)


class AppendState(Enum):
    """The states of the writing end; see the drawing in the module's docstring."""

    IDLE = "idle"
    """No ledger takes entries; the next group opens one."""
    OPEN = "open"
    SETTLING = "settling"
    FENCED = "fenced"
    TERMINATED = "terminated"
    CLOSED = "closed"


OPEN: Final = AppendState.OPEN  # Python looks up a member of an Enum ten times slower than a name of the module.
FINAL = frozenset({AppendState.FENCED, AppendState.TERMINATED, AppendState.CLOSED})


class Appender:
    """The writing end of one managed ledger. All calls are on the loop's thread. `caching` says whether confirmed
    entries go to the tail cache."""

    def __init__(
        self,
        label: str,
        ledgers: LedgerList,
        switch: LedgerSwitch,
        config: ManagedLedgerConfig,
        shared: SharedByLedgers,
        traffic: LedgerTraffic,
        owner: PartOwner,
        *,
        terminated: bool,
    ) -> None:
        self._label = label
        self._ledgers = ledgers
        self._ledger_switch = switch
        self._access = shared.access
        self._gate: LedgerGate | None = None
        self._cache = shared.cache
        self._traffic = traffic
        self._clocks = shared.clocks
        self._owner = owner
        self.configure(config)
        self.caching = False
        self.state = AppendState.TERMINATED if terminated else AppendState.IDLE
        self.handle: LedgerWriter | None = None
        """The handle of the list's current ledger, which is open or still has to be closed; None when there is none."""
        self._in_flight = 0
        """How many groups a ledger has."""
        self._queue = AppendQueue()
        self._goal: AppendState | None = None
        """The final state that was asked for, until it is reached or given up."""
        self._failure: ManagedLedgerError | None = None
        """The error with which all waiting groups must fail when their turn comes."""
        self._want_open = False
        self._last_error: ManagedLedgerError | None = None
        self._drained: asyncio.Future[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self.ledger_created_ms = self.ledger_failed_ms = 0
        self._ledger_created_s = 0.0
        self._last_append_s = shared.clocks.monotonic_s()

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Sets the limits for the current ledger and later ledgers."""
        self._config = config
        self._entries_max = config.managed_ledger_max_entries_per_ledger
        self._size_max = config.size_max

    @property
    def is_open(self) -> bool:
        """Whether a group would go straight to a ledger."""
        return self.state is OPEN

    @property
    def ledger_age_s(self) -> float:
        """Returns for how many seconds the current ledger has been open."""
        return self._clocks.monotonic_s() - self._ledger_created_s

    @property
    def idle_s(self) -> float:
        """Returns how many seconds ago the last entry was confirmed."""
        return self._clocks.monotonic_s() - self._last_append_s

    @property
    def pending_entries(self) -> int:
        """Returns how many entries were accepted and are neither confirmed nor failed yet."""
        pushed = 0 if self.handle is None else self.handle.last_add_pushed + 1 - self._ledgers.current_entries
        return max(0, pushed) + self._queue.entries

    # ---- the hot path

    def add_entries(self, payloads: list[bytes], done: AddDone, came_s: float | None = None) -> None:
        """Appends one group of at least one payload, behind all earlier groups. `done` is called once, on the loop, in
        order, never from inside this call. `came_s` is when the group came, None for now."""
        if self.state is not OPEN:
            self._wait(payloads, done)
            return
        handle = self.handle
        assert handle is not None
        now_s = self._clocks.monotonic_s()
        append = handle.append(payloads, SentGroup(self, done, now_s, 0.0 if came_s is None else now_s - came_s))
        self._in_flight += 1
        pushed = append.first_entry_id + len(payloads)
        at_limit = pushed >= self._entries_max or append.length >= self._size_max
        if at_limit and ledger_rules.is_full(self._config, pushed, append.length, self.ledger_age_s):
            if self._gate is None:
                self._gate = LedgerGate(self._access, self._leave_full)
            self._gate.want_to_leave(self._ledgers.current_id)

    def appended(self, group: SentGroup, append: Append) -> None:
        """Called when a ledger has confirmed the group, or has failed to."""
        self._in_flight -= 1
        done, group.done = group.done, is_told
        try:
            if append.error is None:
                ledgers = self._ledgers
                entries = cast("list[bytes]", append.entries)
                count, first, ledger_id = len(entries), append.first_entry_id, ledgers.current_id
                size = append.length - ledgers.current_size
                ledgers.grow(count, size)
                self._last_append_s = now_s = self._clocks.monotonic_s()
                self._traffic.added(now_s - group.sent_s, group.waited_s, entries, size)
                if self.caching:
                    assert self.handle is not None
                    self._cache.add(ledger_id, first, entries, size, self.handle.payload_offset, now_s)
                self._tell(done, AddResult([(ledger_id, first, count)], None))
                self._owner.confirmed()
            else:
                self._traffic.add_errors += 1
                self._tell(done, AddResult([], self._append_failed(append.error)))
        finally:
            if not self._in_flight and self._drained is not None and not self._drained.done():
                self._drained.set_result(None)

    async def roll(self, why: str) -> None:
        """Closes the current ledger; the next group opens another one. Raises the error that prevented the closing."""
        if self.state is OPEN:
            self._leave(why)
        await self._until_settled()
        if self.handle is not None and self._last_error is not None and self.state is AppendState.IDLE:
            raise self._last_error

    async def open_ledger(self) -> None:
        """Opens a ledger if none is open. The next group then need not wait, and the caller knows that storage works.
        Raises the error with which a group would fail."""
        if self.is_open:
            return
        self._want_open = True
        self._start_settling()
        await self._until_settled()
        if not self.is_open:
            raise self._refusal() or self._last_error or AppendFault(self._label, "no ledger was opened")

    async def terminate(self) -> None:
        """Ends appending for ever; entries in flight are still confirmed. Idempotent. Raises MetaStoreFault,
        ManagedLedgerFenced, ManagedLedgerClosed, AppendFault (the ledger could not be closed now)."""
        if (refusal := self._refusal()) is not None and not isinstance(refusal, ManagedLedgerTerminated):
            raise refusal
        await self._reach(AppendState.TERMINATED)
        if self.state is not AppendState.TERMINATED:
            raise self._refusal() or self._last_error or AppendFault(self._label, "not terminated")

    async def close(self) -> None:
        """Ends appending and closes the ledger. If that fails, the next opening recovers the ledger. Idempotent."""
        while self.state is not AppendState.CLOSED:
            await self._reach(AppendState.CLOSED)

    def fence(self, error: ManagedLedgerError) -> None:
        """Stops appending, because another owner has taken over the managed ledger. A close goes on to its end."""
        if self.state in (AppendState.FENCED, AppendState.CLOSED):
            return
        logger.warning("%s: fenced: %s", self._label, error)
        self._last_error = error
        self.state = AppendState.FENCED
        self._goal = self._goal if self._goal is AppendState.CLOSED else AppendState.FENCED
        self._start_settling()
        self._owner.fenced(error)

    def _wait(self, payloads: list[bytes], done: AddDone) -> None:
        # While a final state is asked for but not reached, a group keeps its payloads, because terminating may fail.
        if self.state in FINAL or self._failure is not None:
            self._queue.push_doomed(done)
        elif not self._queue.push(payloads, done, self._clocks.monotonic_s()):
            self._failure = TooManyPending(self._label, "too many entries wait for a ledger")
        self._start_settling()

    def _leave_full(self, ledger_id: int) -> None:
        if self.is_open and self._ledgers.current_id == ledger_id:
            self._leave("full")

    def _leave(self, why: str) -> None:
        logger.info("%s: leaving ledger %d (%s)", self._label, self._ledgers.current_id, why)
        self.state = AppendState.SETTLING
        self._start_settling()

    def _append_failed(self, error: LedgerError) -> ManagedLedgerError:
        if isinstance(error, LedgerFenced):
            failure: ManagedLedgerError = ManagedLedgerFenced(self._label, f"ledger fenced by another owner: {error}")
            self.fence(failure)
            return failure
        failure = AppendFault(self._label, f"{type(error).__name__}: {error}")
        self.ledger_failed_ms = self._clocks.wall_ms()
        if self.state is OPEN:
            self._leave(f"append failed: {failure}")
        if self._failure is None:
            self._failure = failure
        return failure

    def _start_settling(self) -> None:
        if self.state is AppendState.IDLE:
            self.state = AppendState.SETTLING
        if self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(self._settle())

    async def _until_settled(self) -> None:
        while self._settling is not None:
            await asyncio.shield(self._settling)  # The end of the event loop cancels that task, and thereby this call.

    async def _reach(self, goal: AppendState) -> None:
        if self.state is goal:
            return
        self._goal = goal
        if self.is_open:
            self.state = AppendState.SETTLING
        self._start_settling()
        await self._until_settled()

    async def _settle(self) -> None:
        """Works until nothing is left to do. Each round waits for the appends in flight, fails the groups that must
        fail, and then switches ledgers or enters a final state."""
        try:
            again = True
            while again:
                await self._drain()
                self._fail_doomed()
                if self._goal is not None and self._goal is not self.state:
                    await self._finish(self._goal)
                elif self.state not in FINAL:
                    await self._switch()
                elif self.state is AppendState.FENCED and self.handle is not None and self.handle.is_open:
                    await self.handle.abandon()
                again = bool(self._queue) or self.state is AppendState.SETTLING or self._failure is not None
                again = again or (self._goal is not None and self._goal is not self.state)
        except Exception:
            logger.exception("%s: broken while it was %s", self._label, self.state.value)
            self.fence(ManagedLedgerFenced(self._label, "internal error, see the log"))
            self._fail_doomed()
        finally:
            self._settling = None

    async def _drain(self) -> None:
        if self._in_flight:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
            self._drained = None

    def _refusal(self, state: AppendState | None = None) -> ManagedLedgerError | None:
        """Returns why a group cannot be added in `state` (default: the goal, else the present state), or None."""
        state = state or self._goal or self.state
        if state is AppendState.FENCED:
            return self._last_error or ManagedLedgerFenced(self._label, "fenced")
        if state is AppendState.TERMINATED:
            return ManagedLedgerTerminated(self._label)
        return ManagedLedgerClosed(self._label, "closed") if state is AppendState.CLOSED else None

    def _fail_doomed(self) -> None:
        # A final state that is asked for but not reached fails no group yet, because terminating may fail.
        error = self._refusal(self.state) or self._failure
        self._failure = None
        if error is not None:
            for group in self._queue.take():
                self._tell(group.done, AddResult([], error))

    def _tell(self, done: AddDone, result: AddResult) -> None:
        try:
            done(result)
        except Exception:
            logger.exception("%s: an append's callback failed", self._label)

    async def _switch(self) -> None:
        """Closes the old ledger. If groups wait, opens a new ledger and sends them to it."""
        try:
            await self._change_ledger()
        except ManagedLedgerFenced as error:
            self.fence(error)
        except ManagedLedgerError as error:
            logger.warning("%s: no ledger to write to: %s", self._label, error)
            self.ledger_failed_ms = self._clocks.wall_ms()
            self._want_open = False
            self._last_error = self._failure = error
            self._fail_doomed()
        if self.state is AppendState.SETTLING and not self._queue and self._goal is None:
            self.state = AppendState.IDLE

    async def _change_ledger(self) -> None:
        leaving, opened, failure = self.handle, None, None
        if leaving is not None:
            await self._ledger_switch.close(leaving)
        if (self._queue or self._want_open) and self._goal is None:
            try:
                opened = await self._ledger_switch.create(self._config)
            except AppendFault as error:
                failure = error
        if leaving is not None or opened is not None:
            await self._ledger_switch.write_list(leaving, opened)
            self.handle = opened
        self._want_open = False
        if failure is not None:
            raise failure
        if opened is not None and self.state is AppendState.SETTLING and self._goal is None:
            self.ledger_created_ms = self._clocks.wall_ms()
            self._ledger_created_s = self._clocks.monotonic_s()
            self._last_error = None
            self.state = OPEN
            self._fail_doomed()
            self._send_queue()

    def _send_queue(self) -> None:
        for group in self._queue.take():
            # When a group fills the ledger, `add_entries` puts the groups after it back into the queue.
            self.add_entries(group.payloads, group.done, group.came_s)

    async def _finish(self, goal: AppendState) -> None:
        """Enters a final state. If terminating fails, appending goes on."""
        handle = self.handle
        try:
            if handle is not None and self.state is AppendState.FENCED:
                await handle.abandon()
            elif handle is not None:
                await self._ledger_switch.close(handle)
            if goal is AppendState.TERMINATED:
                await self._ledger_switch.write_end(handle)
                self.handle = None
        except ManagedLedgerFenced as error:
            if goal is not AppendState.CLOSED:
                self.fence(error)
                return
        except ManagedLedgerError as error:
            if goal is not AppendState.CLOSED:
                self._last_error = error
                self._reached(goal)
                return
            logger.warning("%s: closed without closing its ledger: %s", self._label, error)
        self.state = goal
        self._reached(goal)
        self._fail_doomed()

    def _reached(self, goal: AppendState) -> None:
        """Clears the goal, which was reached or given up, unless another goal was set meanwhile."""
        if self._goal is goal:
            self._goal = None
