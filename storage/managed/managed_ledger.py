"""An endless log: one ledger after the other, and cursors in it. A persistent topic stores its messages in a managed
ledger.

`ManagedLedger` is the object that callers use. Its parts are `appender` (writing), `ledger_reader` (reading),
`ledger_list` (positions), `trimmer` (deleting), `cursor` and `cursor_store` (acknowledging).
`factory.ManagedLedgerFactory` opens and closes managed ledgers. Source: ManagedLedgerImpl.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from magnetar.metadata.paths import managed_ledger_path
from magnetar.storage.ledger.isolation_rules import BookieGroups
from magnetar.storage.managed import ledger_rules
from magnetar.storage.managed.append_queue import AddDone
from magnetar.storage.managed.appender import Appender, AppendState
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.cursor_table import CursorTable
from magnetar.storage.managed.gaps import Gap
from magnetar.storage.managed.keeping_rules import KeptLedger, Need
from magnetar.storage.managed.ledger_labels import ledger_labels
from magnetar.storage.managed.ledger_opening import open_list
from magnetar.storage.managed.ledger_reader import LedgerReader
from magnetar.storage.managed.ledger_switch import LedgerSwitch
from magnetar.storage.managed.ledger_traffic import LedgerTraffic
from magnetar.storage.managed.ledger_writer import LedgerWriter
from magnetar.storage.managed.list_store import ListStore
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerClosed, ManagedLedgerError, ManagedLedgerFenced
from magnetar.storage.managed.managed_ledger_stats import ManagedLedgerStats
from magnetar.storage.managed.managed_ledger_view import ManagedLedgerView
from magnetar.storage.managed.shared_by_ledgers import SharedByLedgers
from magnetar.storage.managed.trimmer import Trimmer
from pulsar_proto.ids import LATEST, Position

logger = logging.getLogger(__name__)


class ManagedLedger(ManagedLedgerView):
    """One managed ledger. `ManagedLedger.open` creates the object. All calls are on the loop's thread."""

    __slots__ = (
        "_active",
        "_appender",
        "_cursors",
        "_fence_error",
        "_fence_listeners",
        "_groups",
        "_listeners",
        "_shared",
        "_trimmer",
        "config",
        "label",
        "name",
        "traffic",
    )

    def __init__(self, name: str, config: ManagedLedgerConfig, shared: SharedByLedgers, lists: ListStore) -> None:
        self.name, self.label = name, lists.label
        self.config = config
        self._shared = shared
        self._groups: BookieGroups | None = None
        self._active = 0
        """How many cursors are active (`Cursor.is_active`)."""
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._fence_listeners: tuple[Callable[[ManagedLedgerError], None], ...] = ()
        self._fence_error: ManagedLedgerError | None = None
        self.traffic = LedgerTraffic(shared.write_latency)
        super().__init__(lists, LedgerReader(self.label, lists.ledgers, shared, self.traffic, self))
        switch = LedgerSwitch(
            self.label, lists, shared.bookkeeper, self, clocks=shared.clocks, switch_latency=self.traffic.switch_latency
        )
        self._appender = Appender(
            self.label,
            lists.ledgers,
            switch,
            config,
            shared,
            self.traffic,
            self,
            terminated=lists.terminated is not None,
        )
        self._cursors = CursorTable(name, self.label, config, shared, lists.ledgers, self)
        self._trimmer = Trimmer(
            self.label, lists, shared.reaper, config, shared.access, self, clock_ms=shared.clocks.wall_ms
        )

    @classmethod
    async def open(
        cls, name: str, config: ManagedLedgerConfig, shared: SharedByLedgers, *, create: bool
    ) -> "ManagedLedger":
        """Takes the managed ledger over and recovers its list and its cursors. Raises NoSuchManagedLedger,
        ManagedLedgerFenced, MetaStoreFault, AppendFault, CursorFault."""
        path, label = managed_ledger_path(name), shared.label_of(name)
        now_ms = shared.clocks.wall_ms()
        opened = await open_list(label, path, shared.metadata, shared.bookkeeper, create=create, now_ms=now_ms)
        ledger = cls(name, config, shared, opened.lists)
        shared.reaper.bury(opened.garbage, label)
        if opened.has_cursors:
            await ledger._cursors.recover()
        ledger._trim_passed()
        return ledger

    @property
    def state(self) -> AppendState:
        return self._appender.state

    def stats(self) -> ManagedLedgerStats:
        """Returns the statistics that internalStats shows of this managed ledger."""
        ledgers, appender = self._ledgers, self._appender
        keeper = self._trimmer.choose().keeper
        return ManagedLedgerStats(
            appender.state,
            self.traffic.entries_added,
            ledgers.entries,
            ledgers.size,
            ledgers.current_id,
            ledgers.current_entries,
            ledgers.current_size,
            appender.ledger_created_ms,
            appender.ledger_failed_ms,
            appender.pending_entries,
            ledgers.last_confirmed,
            tuple(ledgers.infos),
            None if keeper is None else str(keeper),
        )

    def kept_ledgers(self) -> list[KeptLedger]:
        """Returns the ledgers with what keeps them now (`keeping_rules.explained`)."""
        return self._trimmer.explain()

    # ---- writing

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None:
        """Appends a group, one entry for each payload, behind all earlier groups. The payloads are stored as they are.

        `done(AddResult)` is called once, on the loop, in order, never from inside this call. Its error is an
        AppendFault, MetaStoreFault or TooManyPending (a later group may succeed), ManagedLedgerFenced,
        ManagedLedgerTerminated or ManagedLedgerClosed.
        """
        self._appender.add_entries(payloads, done)

    def on_append(self, callback: Callable[[], None]) -> None:
        """Calls `callback` after each confirmed group, after the group's `done`, until `not_on_append`."""
        self._listeners = (*self._listeners, callback)

    def not_on_append(self, callback: Callable[[], None]) -> None:
        """Ends the calls of an equal callback that `on_append` began."""
        self._listeners = tuple(listener for listener in self._listeners if listener != callback)

    def on_fenced(self, callback: Callable[[ManagedLedgerError], None]) -> None:
        """Calls `callback` once, never from inside this call, when another owner has taken over the managed ledger. If
        the takeover is known already, the callback comes soon. A managed ledger that was taken over is unusable and
        must be opened again."""
        self._fence_listeners = (*self._fence_listeners, callback)
        if self._fence_error is not None:
            asyncio.get_running_loop().call_soon(callback, self._fence_error)

    def changes_seen(self, changes: int | None) -> bool:
        """Called when the list's record has changed, or, with None, when changes of it may have been overlooked.
        Returns whether another owner may have made a change, so that `check_ownership` has to be called."""
        return self._lists.changes_seen(changes)

    async def check_ownership(self) -> None:
        """Fences the managed ledger when another owner has written or deleted its list. Raises MetaStoreFault."""
        try:
            await self._lists.check()
        except ManagedLedgerFenced as error:
            self._appender.fence(error)

    @property
    def metadata_is_away(self) -> bool:
        """Whether the metadata store cannot be reached now. Without the store no ledger can be made or changed."""
        return self._shared.access.is_away

    async def open_ledger(self) -> None:
        """Opens a ledger for entries if none is open. The first entry then need not wait, and the caller knows that
        storage works. Raises the error that `add_entries` would report."""
        await self._appender.open_ledger()

    async def roll(self) -> None:
        """Closes the current ledger; the next entry goes to another one. Raises AppendFault, MetaStoreFault."""
        await self._appender.roll("asked for")

    async def terminate(self) -> Position:
        """Ends appending for ever. Entries that were given to `add_entries` before may still be confirmed. Returns the
        last position. Raises MetaStoreFault, AppendFault (the managed ledger is not terminated), ManagedLedgerFenced,
        ManagedLedgerClosed."""
        await self._appender.terminate()
        assert self._lists.terminated is not None
        return self._lists.terminated

    async def set_properties(self, updates: Mapping[str, str | None]) -> None:
        """Sets properties; a value of None removes one. The properties are durable on return. Raises MetaStoreFault,
        ManagedLedgerFenced."""

        def update(properties: Mapping[str, str]) -> dict[str, str]:
            return {key: value for key, value in {**properties, **updates}.items() if value is not None}

        await self._lists.change(properties=update)

    def keep_latest(self, properties: Callable[[], Mapping[str, str]]) -> None:
        """Stores the properties that `properties()` returns, which may change often, with every later change of the
        ledger list. They are not stored at once; `set_properties` does that."""
        self._lists.latest_properties = properties

    # ---- cursors

    @property
    def cursors(self) -> Mapping[str, Cursor]:
        """The durable cursors, by name."""
        return self._cursors.durable

    async def open_cursor(
        self, name: str, initial: Position = LATEST, properties: Mapping[str, str] | None = None
    ) -> Cursor:
        """Returns the durable cursor of that name. If there is none, makes one whose first entry is the first one at or
        after `initial`, which may be EARLIEST, or LATEST for entries that are appended from now on. Raises
        ManagedLedgerClosed, ManagedLedgerFenced, MetaStoreFault, CursorFault."""
        if self.state in (AppendState.FENCED, AppendState.CLOSED):
            raise ManagedLedgerClosed(self.label, f"the managed ledger is {self.state.value}")
        return await self._cursors.open(name, initial, properties or {})

    def new_non_durable_cursor(self, start: Position) -> Cursor:
        """Returns a cursor for a reader. Such a cursor is never stored and keeps no ledger from being deleted. `start`
        is like `initial` of `open_cursor`. The caller gives the cursor back with `release`."""
        return self._cursors.new_non_durable(start)

    def release(self, cursor: Cursor) -> None:
        """Forgets a non-durable cursor."""
        self.deactivate(cursor)
        self._cursors.release(cursor)

    async def delete_cursor(self, name: str) -> None:
        """Deletes a durable cursor. Raises NoSuchCursor, MetaStoreFault (then the cursor is still there)."""
        self.deactivate(await self._cursors.delete(name))
        self._trimmer.request()

    def hold(self, name: str, position: Position) -> Callable[[], None]:
        """Keeps all entries after `position` from being deleted, even if all cursors acknowledge them, until the
        returned function is called. Compaction and snapshots of deduplication use this method, because their results
        are not durable at once. `name` tells people who holds the entries."""
        need = Need(name, position)
        self._cursors.hold(need)

        def release() -> None:
            self._cursors.let_go(need)
            self._trimmer.request()

        return release

    def activate(self, cursor: Cursor) -> None:
        """Puts new entries into the tail cache from now on, because a consumer reads at the tail with this cursor."""
        if not cursor.is_active:
            cursor.is_active = True
            self._active += 1
        self._appender.caching = True

    def deactivate(self, cursor: Cursor) -> None:
        """Undoes `activate` for this cursor. When no active cursor is left, the cached entries are dropped."""
        if cursor.is_active:
            cursor.is_active = False
            self._active -= 1
        if not self._active:
            self._stop_caching()

    def _stop_caching(self) -> None:
        if self._appender.caching:
            self._appender.caching = False
            for info in self._ledgers.infos:
                self._shared.cache.drop_ledger(info.ledger_id)

    # ---- upkeep, by the factory

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Sets new limits and retention from now on. Cursors that are open keep the limits that they have."""
        self.config = self._trimmer.config = config
        self._appender.configure(config)
        self._trimmer.request()

    def place_on(self, groups: BookieGroups | None) -> None:
        """Sets the groups of bookies on which ledgers that are made from now on are placed; None stands for all
        bookies."""
        self._groups = groups

    async def maintain(self) -> None:
        """Closes a ledger that is due by age or idleness, and trims."""
        appender = self._appender
        if appender.is_open:
            consumed = bool(self.cursors) and not any(cursor.backlog for cursor in self.cursors.values())
            due = ledger_rules.is_due(self.config, self._ledgers, appender.ledger_age_s, appender.idle_s, consumed)
            if due and await self._shared.access.answers() and appender.is_open:
                try:
                    await appender.roll("due")
                except ManagedLedgerError as error:
                    logger.warning("%s: ledger not rolled: %s", self.label, error)
        self._trimmer.request()
        await self._trimmer.idle()

    async def close(self) -> None:
        """Stores the cursors and closes the current ledger. A failure is logged, and the next opening recovers the
        state. Idempotent. Called by the factory."""
        await self._trimmer.close()
        await asyncio.gather(self._appender.close(), self._cursors.close())
        self._stop_caching()

    # ---- for the parts (see `PartOwner`)

    @property
    def current_handle(self) -> LedgerWriter | None:
        return self._appender.handle

    @property
    def skips_lost_entries(self) -> bool:
        return self.config.auto_skip_non_recoverable_data

    async def gap_skipped(self, gap: Gap) -> None:
        await self._cursors.skip(gap)

    def request_trim(self) -> None:
        self._trimmer.request()

    async def trim_ended(self) -> None:
        await self._trimmer.settled()

    async def check_owner(self) -> None:
        await self._lists.check_now()

    def fence(self, error: ManagedLedgerError) -> None:
        self._appender.fence(error)

    def needs(self) -> list[Need]:
        return self._cursors.needs()

    def ledger_labels(self) -> dict[str, bytes]:
        return ledger_labels(self.name, self._groups)

    def bury(self, ledger_ids: Sequence[int], use: str = "") -> None:
        self._shared.reaper.bury(ledger_ids, self.label, use)

    def highest_id(self) -> int:
        """The positions of cursors count too, because a cursor may stand in a ledger that was trimmed."""
        ids = [cursor.mark_delete.ledger_id for cursor in self.cursors.values()]
        return max(self._ledgers.last_id, self._ledgers.last_confirmed.ledger_id, *ids, -1)

    def confirmed(self) -> None:
        for listener in self._listeners:
            try:
                listener()
            except Exception:
                logger.exception("%s: a listener failed", self.label)

    def ledger_closed(self, garbage: Sequence[int]) -> None:
        self.bury(garbage)
        self._trim_passed()

    def fenced(self, error: ManagedLedgerError) -> None:
        self._cursors.stop(error)
        self._fence_error = error
        for callback in self._fence_listeners:
            asyncio.get_running_loop().call_soon(callback, error)

    def trimmed(self, ledger_ids: tuple[int, ...]) -> None:
        for ledger_id in ledger_ids:
            self._shared.cache.drop_ledger(ledger_id)
            self._shared.handles.drop(ledger_id)
        self.gaps.forget_before(ledger_ids[-1] + 1)
        self._cursors.forget_before(ledger_ids[-1] + 1)

    # ---- inside

    def _trim_passed(self) -> None:
        """Trims the ledgers that every durable cursor has passed. Has no effect without durable cursors: ledgers then
        wait for `maintain`. In Apache's broker they wait for the retention check, too: its trim at a rollover comes
        before the next ledger exists."""
        if self._cursors.needs():
            self._trimmer.request()
