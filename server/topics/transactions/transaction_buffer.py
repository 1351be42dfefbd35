"""The transactions of one topic: admits their messages, ends them with markers in the topic's log, and keeps snapshots
from which their state is recovered.

    recover ──▶ NO_SNAPSHOT ──the first message of a transaction──▶ READY ──▶ CLOSED
            └─────────────────────────────────────────────────────▶

A topic in NO_SNAPSHOT never had a message of a transaction. The first one waits until a snapshot is stored, so a topic
without a snapshot need not be read when it is loaded.

Source: TopicTransactionBuffer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from functools import partial
from typing import Any, Protocol

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.process.storage_faults import told_as
from magnetar.server.process.task_failures import log_failure
from magnetar.server.topics.transactions.buffer_rules import LogPositions, OpenTransactions
from magnetar.server.topics.transactions.recovery import ReadLog, read_transactions
from magnetar.server.topics.transactions.snapshots import TopicSnapshots
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.storage.managed.append_queue import AddDone, AddResult
from pulsar_proto.errors import NotAllowed, PulsarError, ServiceNotReady
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.transaction_marker import TransactionMarker, encode_marker

log = logging.getLogger(__name__)

FEW_OPEN = 64
"""Up to so many open transactions of a topic are looked at whenever one of them ends."""


class BufferState(Enum):
    """The states, as statistics call them (TopicTransactionBufferState.State)."""

    RECOVERING = "Initializing"
    NO_SNAPSHOT = "NoSnapshot"
    READY = "Ready"
    CLOSED = "Close"


class TopicLog(LogPositions, ReadLog, Protocol):
    """The methods of the topic's managed ledger that its transactions use."""

    @property
    def terminated(self) -> Position | None: ...

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None: ...


class TransactionBuffer:
    """The transactions of one topic. All methods are called on the loop's thread."""

    def __init__(
        self,
        topic: str,
        ledger: TopicLog,
        support: TransactionSupport,
        snapshots: TopicSnapshots,
        clock_ms: Callable[[], int],
    ) -> None:
        """`topic` is the topic's full name. `clock_ms` returns ms since the epoch."""
        self.state = BufferState.RECOVERING
        self.transactions = OpenTransactions(ledger)
        self.snapshots = snapshots
        self.snapshot_ms = 0
        """When this broker stored the last snapshot, in ms since the epoch; 0 for never."""
        self.recovery_began_ms = 0
        self.recovery_ended_ms = 0
        self._topic = topic
        self._ledger = ledger
        self._settings: TransactionSettings = support.settings
        self._known = support.known
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._expected: set[TxnId] = set()
        """Transactions without a message here that their coordinators, on other brokers, have said to be live."""
        self._ending: dict[TransactionMarker, asyncio.Future[None]] = {}
        """The markers that are being stored."""
        self._first_snapshot: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._snapshot_at: Position | None = None
        """The read limit of the last snapshot."""
        self._ends_since_snapshot = 0
        self._held_back_by: TxnId | None = None
        """The oldest open transaction when the timer ran out last."""

    # --- for those who read ------------------------------------------------------------------------------------------

    @property
    def max_read_position(self) -> Position:
        """The last entry that dispatchers, compaction and GET_LAST_MESSAGE_ID may read."""
        return self.transactions.max_read_position

    def is_aborted(self, txn_id: TxnId) -> bool:
        return self.transactions.is_aborted(txn_id)

    # --- the life of the buffer --------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Recovers the state of the topic's transactions. Called once, before the topic has clients. Raises PulsarError
        or ManagedLedgerError when the snapshot or the log cannot be read."""
        self.recovery_began_ms = self._clock_ms()
        latest = await self.snapshots.latest()
        first_ledger_id = self._ledger.first_position.ledger_id
        # A topic that was deleted while transactions were off has left its snapshot to a new topic of its name. That
        # topic's log has no ledger yet, or later ledgers only.
        if latest is None or first_ledger_id < 0:
            self.state = BufferState.NO_SNAPSHOT
        else:
            transactions = self.transactions
            if latest.max_read_position.ledger_id >= first_ledger_id:
                transactions.restore(latest.aborted)
            entries = await read_transactions(self._ledger, latest.max_read_position, transactions, self._clock_ms())
            transactions.recovered()
            await self.snapshots.recovered(transactions.aborted)
            self._snapshot_at = latest.max_read_position
            self._become_ready()
            counts = len(transactions.open), len(transactions.aborted)
            log.info("%s: %d entries read, %d transactions are open, %d aborted", self._topic, entries, *counts)
            if transactions.open:
                self._look_for_orphans()
        self.recovery_ended_ms = self._clock_ms()

    def begin(self) -> None:
        """Called in place of `recover` for a topic that has no snapshot."""
        self.state = BufferState.NO_SNAPSHOT
        self.recovery_began_ms = self.recovery_ended_ms = self._clock_ms()

    def _become_ready(self) -> None:
        self.state = BufferState.READY
        self._timer = self._loop.call_later(self._period_s, self._timer_ran_out)

    @property
    def _period_s(self) -> float:
        return max(1, self._settings.transaction_buffer_snapshot_min_time_in_millis) / 1000

    def close(self) -> None:
        """Stops all work in the background. Idempotent."""
        self.state = BufferState.CLOSED
        for each in (self._timer, self._first_snapshot, self._writing, self._looking):
            if each is not None:
                each.cancel()

    # --- messages ----------------------------------------------------------------------------------------------------

    def admission(self, txn_id: TxnId) -> PulsarError | Awaitable[None] | None:
        """Returns None when a message of the transaction may be appended now, and the error when it is refused. An
        awaitable means that the caller has to wait for it and then call again; it raises PulsarError when the message
        is refused."""
        transactions = self.transactions
        if self.state is BufferState.CLOSED:
            return ServiceNotReady("Topic is temporarily unavailable")
        if transactions.is_over(txn_id) or transactions.is_aborted(txn_id):
            return _ended(txn_id)
        if txn_id not in transactions.open and txn_id not in self._expected:
            try:
                live = self._known.is_live(txn_id)
            except PulsarError as error:
                return error
            if not isinstance(live, bool):
                return self._expect(txn_id, live)
            if not live:
                return _ended(txn_id)
        if self.state is BufferState.NO_SNAPSHOT:
            if self._first_snapshot is None:
                self._first_snapshot = self._loop.create_task(self._begin())
            return asyncio.shield(self._first_snapshot)
        return None

    async def _expect(self, txn_id: TxnId, live: Awaitable[bool]) -> None:
        if not await live:
            raise _ended(txn_id)
        self._expected.add(txn_id)

    async def _begin(self) -> None:
        """Stores the first snapshot, after which the topic takes messages of transactions. Raises PulsarError."""
        try:
            await self._write(self.max_read_position)
            self._become_ready()
        finally:
            self._first_snapshot = None

    def stored(self, txn_ids: Sequence[tuple[int, TxnId]], result: AddResult) -> None:
        """Called when the log has confirmed a group, before anybody can read it. `txn_ids` says which of the group's
        messages belong to transactions, in ascending order."""
        at = 0
        wanted = iter(txn_ids)
        index, txn_id = next(wanted, (-1, None))
        now_ms = self._clock_ms()
        for ledger_id, first, count in result.runs:
            while txn_id is not None and index < at + count:
                self._expected.discard(txn_id)
                self.transactions.stored(txn_id, Position(ledger_id, first + index - at), now_ms)
                index, txn_id = next(wanted, (-1, None))
            at += count

    # --- ends --------------------------------------------------------------------------------------------------------

    async def end(self, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        """Commits or aborts the transaction in this topic, and returns once that is durable. A second call for the same
        transaction changes nothing that anybody sees. `low_watermark` says up to which count all transactions of this
        coordinator have ended. Raises PulsarError when the marker cannot be stored; the caller then tries again."""
        await self._end(TransactionMarker(txn_id, commit))
        self.transactions.watermark(txn_id.most, low_watermark)
        while (orphan := self.transactions.orphan()) is not None:
            log.warning("%s: transaction %s is over and got no END here, is aborted", self._topic, orphan)
            await self._end(TransactionMarker(orphan, False))

    def end_soon(self, txn_id: TxnId, commit: bool, low_watermark: int) -> "asyncio.Future[None] | None":
        """Begins to do what `end` does, and returns a future of it, which several callers may share and nobody cancels.
        Returns None when there is more to do than to store a marker: the caller then calls `end`."""
        transactions = self.transactions
        if self.state is not BufferState.READY or txn_id not in transactions.open or len(transactions.open) > FEW_OPEN:
            return None
        transactions.watermark(txn_id.most, low_watermark)
        if any(map(transactions.is_over, transactions.open)):
            return None
        return self._mark(TransactionMarker(txn_id, commit))

    async def _end(self, marker: TransactionMarker) -> None:
        if self.state in (BufferState.RECOVERING, BufferState.CLOSED):
            raise ServiceNotReady("Topic is temporarily unavailable")
        if not self._is_without_effect(marker):
            await asyncio.shield(self._mark(marker))

    def _mark(self, marker: TransactionMarker) -> "asyncio.Future[None]":
        """Stores a marker, unless it is being stored already. Callers share the result; it raises PulsarError."""
        ending = self._ending.get(marker)
        if ending is None:
            ending = self._ending[marker] = self._loop.create_future()
            self._ledger.add_entries([encode_marker(marker, self._clock_ms())], partial(self._marked, marker))
        return ending

    def _is_without_effect(self, marker: TransactionMarker) -> bool:
        """Whether no marker need be stored. As in Apache's broker, a commit is always marked."""
        if marker.txn_id in self.transactions.open:
            return False
        if self._ledger.terminated is not None:
            return True
        if marker.commits:
            return False
        return self.state is BufferState.NO_SNAPSHOT or self.transactions.is_aborted(marker.txn_id)

    def _marked(self, marker: TransactionMarker, result: AddResult) -> None:
        """Called when the log has confirmed the marker, before anybody can read it."""
        ending = self._ending.pop(marker)
        if result.error is not None:
            if not ending.cancelled():
                ending.set_exception(told_as(result.error))
                ending.exception()  # The caller may have gone.
            return
        ledger_id, entry_id, _ = result.runs[0]
        self._expected.discard(marker.txn_id)
        if marker.commits:
            self.transactions.committed(marker.txn_id)
        else:
            self.transactions.aborted_at(marker.txn_id, Position(ledger_id, entry_id))
            self.snapshots.aborted(marker.txn_id)
        if not ending.cancelled():
            ending.set_result(None)
        self._ends_since_snapshot += 1
        if self._ends_since_snapshot >= self._settings.transaction_buffer_snapshot_max_transaction_count:
            self._write_if_moved()

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def _timer_ran_out(self) -> None:
        self._timer = self._loop.call_later(self._period_s, self._timer_ran_out)
        self._write_if_moved()
        held_back_by, self._held_back_by = self._held_back_by, self.transactions.oldest()
        if held_back_by is not None and held_back_by == self._held_back_by:
            self._look_for_orphans()

    def _write_if_moved(self) -> None:
        if self._writing is None and self.state is BufferState.READY and self.max_read_position != self._snapshot_at:
            self._writing = self._in_background("its snapshot", self._write_in_background())

    async def _write_in_background(self) -> None:
        try:
            await self._write(self.max_read_position)
        finally:
            self._writing = None

    async def _write(self, max_read_position: Position) -> None:
        """Stores a snapshot of the present state. Raises PulsarError."""
        self._ends_since_snapshot = 0
        await self.snapshots.write(self.transactions.aborted, max_read_position)
        self._snapshot_at = max_read_position
        self.snapshot_ms = self._clock_ms()

    # --- orphans -----------------------------------------------------------------------------------------------------

    def _look_for_orphans(self) -> None:
        if self._looking is None:
            self._looking = self._in_background("its open transactions", self._abort_orphans())

    async def _abort_orphans(self) -> None:
        """Aborts the transactions that hold the topic back and of which their coordinators know nothing any more, so
        that no END will come for them: a client sent their messages after the END, or without telling the coordinator.
        Raises PulsarError when a coordinator cannot be asked; the timer tries again."""
        try:
            while (oldest := self.transactions.oldest()) is not None:
                live = self._known.is_live(oldest)
                if live if isinstance(live, bool) else await live:
                    return
                # While the coordinator was asked, the END may have come, after which the coordinator forgot.
                if oldest not in self.transactions.open:
                    continue
                if TransactionMarker(oldest, True) in self._ending:
                    return
                log.warning("%s: transaction %s is unknown to its coordinator, is aborted", self._topic, oldest)
                await self._end(TransactionMarker(oldest, False))
        finally:
            self._looking = None

    def _in_background(self, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(partial(log_failure, f"{self._topic}: {what}"))
        return task


def _ended(txn_id: TxnId) -> NotAllowed:
    return NotAllowed(f"Transaction [{txn_id}] has been ended. Please use a new transaction to send message.")
