"""Opens, lists, deletes and closes managed ledgers, and keeps the tail cache and the only timer, which they share.

The timer ticks every `TICK_SECONDS`. At each tick, cursors with changes that are due are stored, and old groups leave
the tail cache; every `retention_check_interval_in_seconds` all managed ledgers are rolled over and trimmed.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from magnetar.metadata.errors import MetadataError, NoNodeError
from magnetar.metadata.paths import MANAGED_LEDGERS, managed_ledger_path
from magnetar.metadata.store import DeleteOp, MetadataStore, Op
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.managed.appender import FINAL, AppendState
from magnetar.storage.managed.cache_rates import CacheRates
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.cursor_record import NO_LEDGER, parse_node
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.ledger_reaper import LedgerReaper
from magnetar.storage.managed.list_record import parse_list
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_config import MEBIBYTE, ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import (
    ManagedLedgerClosed,
    MetaStoreFault,
    NoSuchManagedLedger,
)
from magnetar.storage.managed.metadata_access import MetadataAccess
from magnetar.storage.managed.read_handles import ReadHandles
from magnetar.storage.managed.shared_by_ledgers import SharedByLedgers
from magnetar.storage.managed.tail_cache import TailCache
from magnetar.storage.managed.takeover_watch import TakeoverWatch
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.latency_summary import LatencySummary

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.5
MAINTAINED_AT_ONCE = 50
"""How many managed ledgers are looked at for maintenance before other tasks may run."""
CLOSED_AT_ONCE = 256
"""How many managed ledgers are closed in parallel when the factory closes."""


class OpeningCancelled(Exception):
    """The caller that was opening a managed ledger was cancelled. Only other calls of `open` get this, which then open
    it themselves."""


class ManagedLedgerFactory:
    """Opens and closes managed ledgers. There is one factory in the process. `clock_ms` is the time of day in
    milliseconds, `monotonic_s` a clock that never jumps. All calls are on the loop's thread."""

    def __init__(
        self,
        metadata: MetadataStore,
        bookkeeper: BookKeeper,
        config: ManagedLedgerConfig,
        *,
        clock_ms: Callable[[], int],
        monotonic_s: Callable[[], float] = time.monotonic,
        label_of: Callable[[str], str] = str,
        tick_seconds: float | None = TICK_SECONDS,
    ) -> None:
        """`label_of` returns how log lines and errors call the managed ledger of a name. With `tick_seconds` None there
        is no timer: the caller calls `tick`."""
        self.config = config
        self.bookkeeper = bookkeeper
        self.clock_ms = clock_ms
        self.cache = TailCache(config.managed_ledger_cache_size_mb * MEBIBYTE)
        self.cache_rates = CacheRates(self.cache)
        self.reaper = LedgerReaper(bookkeeper)
        self.ledgers: dict[str, ManagedLedger] = {}
        """The managed ledgers that are open, by name."""
        self._metadata = metadata
        self._label_of = label_of
        self._monotonic_s = monotonic_s
        self._dirty: dict[Cursor, None] = {}
        self._shared = SharedByLedgers(
            metadata,
            MetadataAccess(metadata, monotonic_s, self._bookies_suffice),
            bookkeeper,
            self.cache,
            ReadHandles(bookkeeper),
            self.reaper,
            Clocks(clock_ms, monotonic_s),
            label_of,
            self._note_dirty,
        )
        self._takeovers = TakeoverWatch(metadata, self.ledgers)
        self._opening: dict[str, asyncio.Future[ManagedLedger] | None] = {}
        """The managed ledgers that are being opened, with the outcome for those who wait for an opening of another
        caller; None while nobody waits."""
        self._tick_seconds = tick_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._maintenance: asyncio.Task[None] | None = None
        self._maintained_s = monotonic_s()
        self._closed = False

    @property
    def write_latency(self) -> LatencySummary:
        """The time from an append to its confirmation, of all managed ledgers."""
        return self._shared.write_latency

    def _bookies_suffice(self) -> bool:
        return self.bookkeeper.writable_bookies >= self.config.managed_ledger_default_ensemble_size

    def config_changed(self) -> None:
        """Called after fields of `config` were changed in place. Managed ledgers that are open have configurations of
        their own, which their owners change."""
        self.cache.resize(self.config.managed_ledger_cache_size_mb * MEBIBYTE)

    # ---- managed ledgers

    async def open(self, name: str, config: ManagedLedgerConfig | None = None, *, create: bool = True) -> ManagedLedger:
        """Returns the managed ledger "tenant/namespace/domain/encoded topic". Several calls share one opening and one
        object. A managed ledger that was fenced or closed since is opened again. Raises NoSuchManagedLedger (without
        `create`), ManagedLedgerClosed (the factory is closed) and the errors of `ManagedLedger.open`."""
        while True:
            if self._closed:
                raise ManagedLedgerClosed(self._label_of(name), "the factory is closed")
            known = self.ledgers.get(name)
            if known is not None:
                if known.state not in FINAL or known.state is AppendState.TERMINATED:
                    return known
                del self.ledgers[name]
            if name not in self._opening:
                return await self._open_first(name, config or self.config, create)
            try:
                return await asyncio.shield(self._outcome(name))
            except NoSuchManagedLedger:
                # Another caller may be opening the managed ledger without `create`. If that attempt finds no managed
                # ledger, this call tries again, and creates it.
                if not create:
                    raise
            except OpeningCancelled:
                continue

    async def _open_first(self, name: str, config: ManagedLedgerConfig, create: bool) -> ManagedLedger:
        """Opens a managed ledger for this caller and for those who ask meanwhile, without a task: a broker that starts
        opens ten thousand. If this caller is cancelled, one of the others opens it."""
        self._opening[name] = None
        try:
            ledger = await self._open(name, config, create)
        except BaseException as error:
            outcome = self._opening.pop(name)
            if outcome is not None:
                outcome.set_exception(error if isinstance(error, Exception) else OpeningCancelled())
            raise
        outcome = self._opening.pop(name)
        if outcome is not None:
            outcome.set_result(ledger)
        return ledger

    def _outcome(self, name: str) -> "asyncio.Future[ManagedLedger]":
        """Returns the outcome of an opening that is under way."""
        outcome = self._opening[name]
        if outcome is None:
            outcome = self._opening[name] = asyncio.get_running_loop().create_future()
            # All who wait may have been cancelled: asking for the error keeps asyncio from logging it.
            outcome.add_done_callback(asyncio.Future.exception)
        return outcome

    async def _open(self, name: str, config: ManagedLedgerConfig, create: bool) -> ManagedLedger:
        try:
            self._begin_watch(name)
            ledger = await ManagedLedger.open(name, config, self._shared, create=create)
            if self._closed:
                await ledger.close()
                raise ManagedLedgerClosed(self._label_of(name), "the factory is closed")
            self.ledgers[name] = ledger
            self._takeovers.opened(name)
            self._start_timer()
            return ledger
        finally:
            self._takeovers.not_opened(name)

    def _begin_watch(self, name: str) -> None:
        try:
            self._takeovers.opening(name)
        except MetadataError as error:
            raise MetaStoreFault(self._label_of(name), str(error)) from error

    async def close_ledger(self, name: str) -> None:
        """Closes one managed ledger, if it is open."""
        ledger = self.ledgers.get(name)
        if ledger is not None:
            await ledger.close()
            self._forget(ledger)

    async def exists(self, name: str) -> bool:
        """Whether there is such a managed ledger, open or not. Raises MetaStoreFault."""
        try:
            return await self._metadata.exists(managed_ledger_path(name)) is not None
        except MetadataError as error:
            raise MetaStoreFault(self._label_of(name), str(error)) from error

    async def list(self, prefix: str) -> list[str]:
        """Returns the names "prefix/…" one level below `prefix`, which is "tenant/namespace/domain". Raises
        MetaStoreFault."""
        try:
            children = await self._metadata.children(f"{MANAGED_LEDGERS}/{prefix}")
        except NoNodeError:
            return []
        except MetadataError as error:
            raise MetaStoreFault(prefix, str(error)) from error
        return [f"{prefix}/{child}" for child in children]

    async def delete(self, name: str) -> None:
        """Closes the managed ledger, deletes all its records in one step and then its ledgers. Raises
        NoSuchManagedLedger, MetaStoreFault (also when a cursor was made meanwhile)."""
        await self.close_ledger(name)
        path, label = managed_ledger_path(name), self._label_of(name)
        try:
            record = await self._metadata.get(path)
            if record is None:
                raise NoSuchManagedLedger(label)
            garbage = [info.ledger_id for info in parse_list(record.value).ledgers]
            ops: list[Op] = []
            for child in await self._metadata.children(path):
                node = await self._metadata.get(f"{path}/{child}")
                if node is not None:
                    ops.append(DeleteOp(f"{path}/{child}", node.stat.version))
                    cursor_ledger = parse_node(node.value, LedgerList()).ledger_id
                    garbage += [cursor_ledger] if cursor_ledger != NO_LEDGER else []
            await self._metadata.multi([*ops, DeleteOp(path, record.stat.version)])
        except (MetadataError, MalformedRecord) as error:
            raise MetaStoreFault(label, f"not deleted: {error}") from error
        logger.info("%s: deleted, with %d ledgers", label, len(garbage))
        self.reaper.bury(garbage, label)

    async def close(self) -> None:
        """Closes all managed ledgers. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._opening:
            await asyncio.wait([self._outcome(name) for name in self._opening])
        limit = asyncio.Semaphore(CLOSED_AT_ONCE)

        async def close(name: str) -> None:
            async with limit:
                await self.close_ledger(name)

        await self._takeovers.close()
        await asyncio.gather(*(close(name) for name in list(self.ledgers)))
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])
        await self.reaper.idle()

    # ---- the timer

    async def tick(self) -> None:
        """Stores the cursors that are due and drops old groups from the tail cache. Begins maintenance if it is due,
        and returns when no maintenance is under way."""
        self._tick()
        if self._maintenance is not None:
            await asyncio.wait([self._maintenance])

    def _tick(self) -> None:
        now_s = self._monotonic_s()
        for cursor in list(self._dirty):
            if not cursor.flush_if_due(now_s):
                del self._dirty[cursor]
        self.cache.evict_before(now_s - self.config.managed_ledger_cache_eviction_time_threshold_millis / 1000)
        interval_s = self.config.retention_check_interval_in_seconds
        if now_s - self._maintained_s >= interval_s and self._maintenance is None:
            self._maintained_s = now_s
            self._maintenance = asyncio.get_running_loop().create_task(self.maintain())

    async def maintain(self) -> None:
        """Rolls over and trims every managed ledger that needs it, and tries failed deletions again."""
        try:
            self.reaper.retry()
            for number, ledger in enumerate(list(self.ledgers.values())):
                await ledger.maintain()
                if number % MAINTAINED_AT_ONCE == MAINTAINED_AT_ONCE - 1:
                    await asyncio.sleep(0)
        finally:
            self._maintenance = None

    def _start_timer(self) -> None:
        if self._timer is None and self._tick_seconds is not None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._tick_seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._tick()
        finally:
            self._start_timer()

    def _note_dirty(self, cursor: Cursor) -> None:
        self._dirty[cursor] = None

    def _forget(self, ledger: ManagedLedger) -> None:
        if self.ledgers.get(ledger.name) is ledger:
            del self.ledgers[ledger.name]
        for cursor in ledger.cursors.values():
            self._dirty.pop(cursor, None)
