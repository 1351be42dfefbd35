"""One topic's compaction: the compacted ledger in use, and the run under way.

A property of the cursor `__compaction` names the ledger in use, and the cursor's mark-delete position says how far that
ledger reaches. Property and position are stored in one write, so if the process dies at any moment, either the old or
the new ledger is in use, and the ledger in use is complete.

Sources: PersistentTopic.triggerCompaction, compactionStatus, checkCompaction; PulsarCompactorSubscription.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from magnetar.server.compaction.compacted_ledger import CompactedLedger
from magnetar.server.compaction.compactor import Compacted, CompactionRun, CompactionSource, LogToCompact
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import EntryReadFault, ManagedLedgerError
from magnetar.storage.managed.period_buckets import LatencyBuckets
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import EARLIEST, Position, TxnId
from pulsar_proto.wire.framing import MAX_MESSAGE_SIZE

log = logging.getLogger(__name__)

COMPACTION_CURSOR = "__compaction"
LEDGER_PROPERTY = "CompactedTopicLedger"

ENDED = "The topic was closed, or is compacted no more"

RUNS_AT_ONCE = 4
"""How many topics the process compacts at the same time; further topics wait for their turn."""


class AlreadyRunning(Exception):
    """A caller asked for a compaction run while a run is under way. The text is that of Java's broker, for the user who
    asked."""

    def __init__(self) -> None:
        super().__init__("Compaction already in progress")


class RunState(Enum):
    """The states that the admin API shows (LongRunningProcessStatus.Status)."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


class RunStatus(NamedTuple):
    state: RunState
    last_error: str = ""


NOT_RUN = RunStatus(RunState.NOT_RUN)


@dataclass(slots=True)
class CompactionCounters:
    """Counts one topic's runs since it was loaded. Times are in ms since the epoch; 0 means never."""

    succeeded: int = 0
    failed: int = 0
    removed: int = 0
    """How many messages all runs have dropped."""
    last_removed: int = 0
    last_succeeded_ms: int = 0
    last_failed_ms: int = 0
    last_duration_ms: int = 0
    last_read_bytes: int = 0
    last_written_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    """The bytes of all runs that succeeded."""
    write_latency: LatencyBuckets | None = None
    """The entries that the last run wrote, by the time that writing took; None before the first run."""


NO_RUNS = CompactionCounters()
"""The counters of all topics that were never compacted. Nobody changes them."""


class CompactionService:
    """The objects and limits that the compactions of all topics share. `bury(ids, owner, use)` deletes ledgers in the
    background; a run holds `turns` while it works."""

    def __init__(
        self,
        bookkeeper: BookKeeper,
        bury: Callable[[Iterable[int], str, str], None],
        clock_ms: Callable[[], int],
        *,
        retain_null_key: bool = False,
        batch_bytes_max: int = MAX_MESSAGE_SIZE,
    ) -> None:
        self.bookkeeper = bookkeeper
        self.bury = bury
        self.clock_ms = clock_ms
        self.retain_null_key = retain_null_key
        self.batch_bytes_max = batch_bytes_max
        self.turns = asyncio.Semaphore(RUNS_AT_ONCE)


class TopicToCompact(Protocol):
    """A topic that takes transactions."""

    @property
    def readable_log(self) -> LogToCompact:
        """The log as far as consumers may read it."""

    def is_aborted(self, txn_id: TxnId) -> bool:
        """Whether the messages of a transaction are left out because it was aborted."""


class TopicCompaction:
    """The compaction of one topic; `name` is the topic's full name. All methods are called on the loop's thread."""

    __slots__ = (
        "_changing_cursor",
        "_counters",
        "_holding",
        "_ledger",
        "_name",
        "_opened",
        "_running",
        "_service",
        "_status",
        "_topic",
        "_unsettled",
    )

    def __init__(self, name: str, ledger: ManagedLedger, service: CompactionService) -> None:
        self._counters: CompactionCounters | None = None
        self._name = name
        self._ledger = ledger
        self._topic: TopicToCompact | None = None
        self._service = service
        self._opened: CompactedLedger | None = None
        self._running: asyncio.Task[None] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._status = NOT_RUN
        self._unsettled: list[tuple[Callable[[], None], list[int]]] = []
        """Replaced ledgers and holds on the log that a restart may still need, because it is unknown whether the change
        to the new compacted ledger was stored. Each item is a function that ends a hold, with the replaced ledgers."""
        self._changing_cursor: asyncio.Lock | None = None
        """The lock that is held while the cursor is created or deleted; None until then."""

    # --- the compacted ledger ----------------------------------------------------------------------------------------

    @property
    def cursor(self) -> Cursor | None:
        """The cursor `__compaction`, or None when the topic has no such cursor. `hold_messages` creates the cursor."""
        return self._ledger.cursors.get(COMPACTION_CURSOR)

    @property
    def ledger_id(self) -> int | None:
        """The id of the compacted ledger in use, or None when the topic has no compacted ledger."""
        cursor = self.cursor
        return None if cursor is None else cursor.position_properties.get(LEDGER_PROPERTY)

    @property
    def batch_bytes_max(self) -> int:
        """The largest size before compression of a batch whose messages compaction reads."""
        return self._service.batch_bytes_max

    @property
    def ledger_ids(self) -> list[int]:
        """The ids of all ledgers that must be deleted with the topic or with its compaction: the ledger in use, and the
        replaced ledgers that may still be in use after a restart."""
        found = [ledger_id for _, replaced in self._unsettled for ledger_id in replaced]
        return found if self.ledger_id is None else [*found, self.ledger_id]

    @property
    def horizon(self) -> Position | None:
        """The position up to which messages are in the compacted ledger, or None when there is no such ledger."""
        cursor = self.cursor
        return None if cursor is None or LEDGER_PROPERTY not in cursor.position_properties else cursor.mark_delete

    @property
    def opened(self) -> CompactedLedger | None:
        """The compacted ledger in use if it is open already, else None."""
        return self._opened if self._opened is not None and self._opened.ledger_id == self.ledger_id else None

    async def compacted(self) -> CompactedLedger | None:
        """Returns the compacted ledger in use, and opens it first if necessary. Returns None when the topic has no
        compacted ledger. Raises EntryReadFault when the ledger cannot be opened."""
        while (ledger_id := self.ledger_id) is not None:
            horizon = self.horizon
            opened = self.opened
            if opened is not None:
                return opened
            assert horizon is not None
            try:
                opened = await CompactedLedger.open(self._service.bookkeeper, ledger_id, horizon)
            except LedgerError as error:
                if self.ledger_id == ledger_id:
                    raise EntryReadFault(self._name, f"compacted ledger {ledger_id}: {error}") from error
                continue  # Another ledger has replaced this one meanwhile.
            if self.ledger_id == ledger_id:
                self._opened = opened
        return None

    def read_through(self, topic: TopicToCompact) -> None:
        """Makes further runs read the topic's `readable_log`, and leave out the messages of aborted transactions."""
        self._topic = topic

    # --- running -----------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> CompactionCounters:
        """The counts of the topic's runs. The caller must not change them."""
        return self._counters or NO_RUNS

    def _own_counters(self) -> CompactionCounters:
        if self._counters is None:
            self._counters = CompactionCounters()
        return self._counters

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def status(self) -> RunStatus:
        return RunStatus(RunState.RUNNING) if self.is_running else self._status

    def trigger(self) -> None:
        """Begins a run. Raises AlreadyRunning when a run is under way."""
        if self._running is not None:
            raise AlreadyRunning
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def idle(self) -> None:
        """Returns when no run is under way."""
        while self._running is not None:
            await asyncio.wait([self._running])

    def check(self, threshold_bytes: int, uncompacted_bytes: Callable[[], int]) -> None:
        """Begins a run if no run is under way and more than `threshold_bytes` are not compacted yet. This method calls
        `uncompacted_bytes` only when it needs the result."""
        if self._running is None and threshold_bytes > 0:
            backlog = uncompacted_bytes()
            if backlog > threshold_bytes:
                log.info("%s: %d bytes to compact, more than %d", self._name, backlog, threshold_bytes)
                self.trigger()

    async def close(self) -> None:
        """Cancels the run under way, which then deletes its new ledger unless the new ledger is in use already. The
        ledger in use stays."""
        for task in (self._running, self._holding):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        # A task that is cancelled before its first step runs no `finally`, so it has not cleared `_running`.
        if self._running is not None:
            self._running = None
            self._failed(ENDED)
        self._holding = None

    def _cursor_lock(self) -> asyncio.Lock:
        if self._changing_cursor is None:
            self._changing_cursor = asyncio.Lock()
        return self._changing_cursor

    async def hold_messages(self) -> None:
        """Creates the cursor if it is missing. From then on no message is deleted from the log before it was compacted.
        Raises ManagedLedgerError."""
        async with self._cursor_lock():
            await self._ledger.open_cursor(COMPACTION_CURSOR, EARLIEST)

    async def give_up(self) -> None:
        """Ends the topic's compaction: cancels a run, deletes the cursor, which held the log's messages, and deletes
        the compacted ledgers. A later run starts from the beginning. Raises ManagedLedgerError when the cursor cannot
        be deleted; in this case the ledgers stay.

        Source: PersistentTopic.unsubscribe, asyncDeleteCursorWithCleanCompactionLedger (which lets a run end)."""
        async with self._cursor_lock():
            await self.close()
            ledger_ids = self.ledger_ids
            await self._ledger.delete_cursor(COMPACTION_CURSOR)
            self._opened = None
            settled, self._unsettled = self._unsettled, []
        for release, _ in settled:
            release()
        self._bury(ledger_ids)
        log.info("%s: compacted no more, deletes compacted ledgers %s", self._name, ledger_ids)

    def _bury(self, ledger_ids: Iterable[int]) -> None:
        self._service.bury(ledger_ids, self._name, "compaction")

    def hold_messages_soon(self) -> None:
        """Creates the cursor in the background if it is missing. When the creation fails, the next run tries again."""
        if self._holding is None and self.cursor is None:
            self._holding = asyncio.get_running_loop().create_task(self._hold())

    async def _hold(self) -> None:
        try:
            await self.hold_messages()
        except ManagedLedgerError as error:
            log.warning("%s: its messages are not held for compaction: %s", self._name, error)
        finally:
            self._holding = None

    async def _run(self) -> None:
        began = time.monotonic()
        counters = self._own_counters()
        try:
            async with self._service.turns:
                began = time.monotonic()
                result = await self._compact()
        except (LedgerError, ManagedLedgerError, MalformedRecord) as error:
            self._failed(str(error))
            log.warning("%s: not compacted: %s", self._name, error)
        except asyncio.CancelledError:
            self._failed(ENDED)
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")
            log.exception("%s: not compacted", self._name)
        else:
            self._status = RunStatus(RunState.SUCCESS)
            counters.succeeded += 1
            counters.last_succeeded_ms = self._service.clock_ms()
            counters.last_removed = result.removed
            counters.removed += result.removed
            counters.last_read_bytes = result.read_bytes
            counters.last_written_bytes = result.size_bytes
            counters.read_bytes += result.read_bytes
            counters.written_bytes += result.size_bytes
        finally:
            counters.last_duration_ms = int((time.monotonic() - began) * 1000)
            self._running = None

    def _failed(self, text: str) -> None:
        self._status = RunStatus(RunState.ERROR, text)
        counters = self._own_counters()
        counters.failed += 1
        counters.last_failed_ms = self._service.clock_ms()

    async def _compact(self) -> Compacted:
        await self.hold_messages()
        old = await self.compacted()
        topic = self._topic
        source = CompactionSource(self._ledger)
        if topic is not None:
            source = CompactionSource(topic.readable_log, topic.is_aborted)
        run = CompactionRun(
            self._name,
            source,
            old,
            self._service.bookkeeper,
            self._ledger.config.quorums,
            retain_null_key=self._service.retain_null_key,
            batch_bytes_max=self.batch_bytes_max,
        )
        result = await run.run()
        run.write_latency.roll()
        self._own_counters().write_latency = run.write_latency
        if result.ledger_id is not None:
            await self._use(result.ledger_id, result.horizon, old)
            with suppress(EntryReadFault):
                await self.compacted()  # Open the new ledger now, for readers and for stats.
            log.info(
                "%s: compacted up to %s into ledger %d: %d entries, %d messages fewer",
                self._name,
                result.horizon,
                result.ledger_id,
                result.entries,
                result.removed,
            )
        return result

    async def _use(self, ledger_id: int, horizon: Position, old: CompactedLedger | None) -> None:
        """Takes the new ledger into use, in place of `old`. The old ledger, and the messages of the log that the new
        ledger replaces, are deleted only after this change is stored: until then a restart would go on with the old
        ledger."""
        cursor = self.cursor
        if cursor is None:
            self._bury([ledger_id])
            raise EntryReadFault(self._name, "the compaction's cursor was deleted meanwhile")
        release = self._ledger.hold(COMPACTION_CURSOR, cursor.mark_delete)
        if not cursor.ack_cumulative(*horizon, properties={LEDGER_PROPERTY: ledger_id}):
            release()
            self._bury([ledger_id])
            raise EntryReadFault(self._name, f"the messages up to {horizon} were deleted meanwhile")
        self._unsettled.append((release, [] if old is None else [old.ledger_id]))
        # If the cursor cannot be stored, both ledgers stay, because either of them may be in use after a restart.
        await cursor.persisted()
        settled, self._unsettled = self._unsettled, []
        for release, replaced in settled:
            release()
            self._bury(replaced)
