"""One transaction coordinator: gives transactions out, remembers what each of them touches, and ends them.

What happened is in the log before anybody is told of it. An append whose outcome is unknown ends the coordinator: the
record may be in the log or not, and only opening the log again tells. Source: TransactionMetadataStoreService,
MLTransactionMetadataStore.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.process.turns import in_portions
from magnetar.server.transactions.batch_counters import BatchCounters
from magnetar.server.transactions.coordinator_counters import CoordinatorCounters
from magnetar.server.transactions.coordinator_rules import ENDS, Transaction, TransactionTable, transaction_not_found
from magnetar.server.transactions.deadlines import Deadlines
from magnetar.server.transactions.end_calls import EndCalls
from magnetar.server.transactions.endings import Endings
from magnetar.server.transactions.log_place import LogPlace
from magnetar.server.transactions.transaction_log import TransactionLog
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import InvalidTxnStatus, PulsarError, TransactionCoordinatorNotFound
from pulsar_proto.ids import TxnId, signed64, unsigned64
from pulsar_proto.records.transaction_log import (
    Record,
    TxnStatus,
    new_record,
    partitions_record,
    subscriptions_record,
    update_record,
)

log = logging.getLogger(__name__)

Closed = Callable[["TransactionCoordinator", ManagedLedgerError], None]
"""A callback that gets a coordinator that cannot go on, and the reason. The coordinator has still to be closed."""


class CoordinatorState(Enum):
    """The states of a coordinator, with the names of TransactionMetadataStoreState.State."""

    READY = "Ready"
    CLOSED = "Close"


class TransactionCoordinator:
    """One coordinator. `TransactionCoordinator.open` makes the object. Every method is called on the event loop's
    thread. A closed coordinator answers every request with TransactionCoordinatorNotFound."""

    def __init__(
        self,
        coordinator_id: int,
        transaction_log: TransactionLog,
        settings: TransactionSettings,
        calls: EndCalls,
        clock_ms: Callable[[], int],
        on_closed: Closed,
    ) -> None:
        self.coordinator_id = coordinator_id
        self.state = CoordinatorState.READY
        self.log = transaction_log
        self.table = TransactionTable(coordinator_id, settings.max_active_transactions_per_coordinator)
        self.counters = CoordinatorCounters()
        self.recovery_started_ms = clock_ms()
        self.recovered_ms = 0
        self._clock_ms = clock_ms
        self._on_closed = on_closed
        self._endings = Endings(self, calls)
        self._deadlines = Deadlines(self._time_out)
        self._appends: set[asyncio.Future[TxnId]] = set()

    @classmethod
    async def open(
        cls,
        coordinator_id: int,
        factory: ManagedLedgerFactory,
        settings: TransactionSettings,
        calls: EndCalls,
        on_closed: Closed,
        batches: BatchCounters,
    ) -> "TransactionCoordinator":
        """Opens the log, replays it, and goes on with what it says: transactions time out, and decided ones are ended.
        `on_closed` is called when the coordinator cannot go on; `batches` counts the batches of its log. Raises
        ManagedLedgerError and MalformedRecord."""
        transaction_log = await TransactionLog.open(coordinator_id, factory, settings, batches)
        coordinator = cls(coordinator_id, transaction_log, settings, calls, factory.clock_ms, on_closed)
        try:
            await coordinator._replay()
        except BaseException as error:
            failure = error
        else:
            transaction_log.on_lost(coordinator._lost)
            await coordinator._resume()
            return coordinator
        await transaction_log.close()
        raise failure

    def __str__(self) -> str:
        return f"transaction coordinator {self.coordinator_id}"

    @property
    def is_ready(self) -> bool:
        return self.state is CoordinatorState.READY

    @property
    def low_watermark(self) -> int:
        return self.table.low_watermark

    # --- requests of clients -----------------------------------------------------------------------------------------

    def new(self, timeout_ms: int, owner: str | None) -> "asyncio.Future[TxnId]":
        """Begins a transaction that is aborted after `timeout_ms`; the result is its id. `owner` is the role of the
        client if there is authentication. The call raises TooManyRequests, the call and the result
        TransactionCoordinatorNotFound."""
        self.check_ready()
        txn_id = self.table.next_id()
        now_ms = self._clock_ms()
        record = new_record(
            txn_id, counter=self.table.counter, now_ms=now_ms, timeout_ms=unsigned64(timeout_ms), owner=owner
        )
        return self._append(record, txn_id, timeout_ms)

    def add_partitions(self, txn_id: TxnId, partitions: Iterable[str]) -> "asyncio.Future[TxnId]":
        """Remembers that the transaction publishes to these partitions. The result is the transaction's id. The call
        and the result raise TransactionNotFound, InvalidTxnStatus, NotAllowed, TransactionCoordinatorNotFound."""
        self.check_ready()
        names = tuple(dict.fromkeys(partitions))
        self.table.check_participants(txn_id, names, len(names))
        record = partitions_record(txn_id, names, counter=self.table.counter, now_ms=self._clock_ms())
        return self._append(record, txn_id)

    def add_subscriptions(self, txn_id: TxnId, subscriptions: Iterable[tuple[str, str]]) -> "asyncio.Future[TxnId]":
        """Remembers that the transaction acknowledges messages in these subscriptions, each (topic, subscription).
        Returns and raises as `add_partitions` does."""
        self.check_ready()
        pairs = tuple(dict.fromkeys(subscriptions))
        self.table.check_participants(txn_id, [name for pair in pairs for name in pair], len(pairs))
        record = subscriptions_record(txn_id, pairs, counter=self.table.counter, now_ms=self._clock_ms())
        return self._append(record, txn_id)

    def begin_end(self, txn_id: TxnId, *, commit: bool) -> "asyncio.Future[TxnId]":
        """Begins to end the transaction, or joins the ending that is under way. The result comes when the transaction
        has ended everywhere, which may take as long as some participant cannot be reached. Several callers share it, so
        a caller that may be cancelled shields it. The call and the result raise TransactionNotFound, InvalidTxnStatus,
        TransactionCoordinatorNotFound."""
        self.check_ready()
        transaction = self.table.check_end(txn_id, commit=commit)
        return self._endings.begin(transaction, commit=commit)

    async def end(self, txn_id: TxnId, *, commit: bool) -> None:
        """Does what `begin_end` begins. The ending goes on when the caller is cancelled."""
        await asyncio.shield(self.begin_end(txn_id, commit=commit))

    def check_ready(self) -> None:
        """Raises TransactionCoordinatorNotFound when the coordinator is closed."""
        if self.state is CoordinatorState.CLOSED:
            raise coordinator_not_found(self.coordinator_id)

    # --- the end of the coordinator ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends the coordinator: requests and endings are broken off, and whoever opens the log next goes on. Raises
        ManagedLedgerError when the log cannot be closed properly, which loses nothing."""
        self._stop()
        await self.log.close()

    def _stop(self) -> None:
        if self.state is CoordinatorState.CLOSED:
            return
        self.state = CoordinatorState.CLOSED
        self._deadlines.close()
        error = coordinator_not_found(self.coordinator_id)
        self._endings.close(str(error))
        for waiting in self._appends:
            if not waiting.done():
                waiting.set_exception(error)

    def _lost(self, error: ManagedLedgerError) -> None:
        """Called when the log was opened by another broker, or the outcome of an append is unknown."""
        if self.state is not CoordinatorState.CLOSED:
            log.warning("%s is closed: %s", self, error)
            self._stop()
            self._on_closed(self, error)

    # --- the log -----------------------------------------------------------------------------------------------------

    def _append(self, record: Record, txn_id: TxnId, timeout_ms: int | None = None) -> "asyncio.Future[TxnId]":
        """Appends a record, and makes its change when the record is durable. The result is `txn_id`. It raises
        InvalidTxnStatus or TransactionNotFound when the change is not allowed any more then, and
        TransactionCoordinatorNotFound when the coordinator is closed meanwhile. `timeout_ms` is for the record of a
        transaction that begins."""
        waiting: asyncio.Future[TxnId] = asyncio.get_running_loop().create_future()

        def done(outcome: LogPlace | ManagedLedgerError) -> None:
            if self.state is CoordinatorState.CLOSED:
                return
            if isinstance(outcome, ManagedLedgerError):
                self._lost(outcome)
                return
            self._appends.discard(waiting)
            error = self._apply(record, txn_id, outcome)
            if error is None and timeout_ms is not None:
                self.counters.created += 1
                self._deadlines.add(txn_id.least, signed64(timeout_ms) / 1000)
            if waiting.done():
                return
            if error is None:
                waiting.set_result(txn_id)
            else:
                waiting.set_exception(error)

        self._appends.add(waiting)
        self.log.append(record, done)
        return waiting

    def _apply(self, record: Record, txn_id: TxnId, place: LogPlace) -> PulsarError | None:
        """Makes the change of a durable record. Returns why the change is not allowed any more, in which case the
        record is deleted."""
        try:
            useless = self.table.apply(record, place)
        except InvalidTxnStatus as error:
            self.log.delete([place])
            return error
        if not useless:
            return None
        self.log.delete(useless)
        return transaction_not_found(txn_id)

    def change_status(self, transaction: Transaction, new: TxnStatus) -> "asyncio.Future[TxnId]":
        """Stores a change of a transaction's status, and makes it. Has no effect when the transaction has that status.
        Returns and raises as `_append` does."""
        self.check_ready()
        txn_id, before = transaction.txn_id, transaction.status
        if before is not new:
            now_ms = self._clock_ms()
            record = update_record(txn_id, before, new, counter=self.table.counter, now_ms=now_ms)
            if new not in ENDS:
                return self._append(record, txn_id)
            self._ended(transaction, record)
            self.counters.changed(new, now_ms - transaction.started_ms)
        changed: asyncio.Future[TxnId] = asyncio.get_running_loop().create_future()
        changed.set_result(txn_id)
        return changed

    def _ended(self, transaction: Transaction, record: Record) -> None:
        """Forgets a transaction that has ended everywhere. The record of its final state is stored together with the
        next record of the log: a coordinator that opens the log before finds the decision there, and tells the
        participants once more what they have done already."""
        places = self.table.end(transaction)
        self._deadlines.discard(transaction.least)

        def done(outcome: LogPlace | ManagedLedgerError) -> None:
            if self.state is CoordinatorState.CLOSED:
                return
            if isinstance(outcome, ManagedLedgerError):
                self._lost(outcome)
            else:
                self.log.delete([*places, outcome])

        self.log.append(record, done, is_awaited=False)

    async def _replay(self) -> None:
        started_s = time.monotonic()
        self.table.counter = await self.log.last_counter()
        self.log.keep_counter(lambda: self.table.counter)
        records = await self.log.replay(self._replay_record)
        self.recovered_ms = self._clock_ms()
        log.info(
            "%s: replayed %d records in %.3f s: %d transactions are alive, the next one is (%d,%d)",
            self,
            records,
            time.monotonic() - started_s,
            len(self.table),
            self.coordinator_id,
            self.table.counter + 1,
        )

    def _replay_record(self, record: Record, place: LogPlace) -> Sequence[LogPlace]:
        try:
            return self.table.apply(record, place)
        except InvalidTxnStatus as error:
            log.info("%s: deletes the record at %s:%s: %s", self, place.ledger_id, place.entry_id, error)
            return (place,)

    async def _resume(self) -> None:
        now_ms = self._clock_ms()
        async for transaction in in_portions(list(self.table)):
            if transaction.status is TxnStatus.OPEN:
                self._deadlines.add(transaction.txn_id.least, (transaction.due_ms - now_ms) / 1000)
            else:
                self._endings.begin(transaction, commit=transaction.status is TxnStatus.COMMITTING)

    # --- time-outs ---------------------------------------------------------------------------------------------------

    def _time_out(self, least: int) -> None:
        transaction = self.table.find(least)
        if transaction is None or self._endings.is_ending(transaction.txn_id):
            return
        self.counters.timed_out += 1
        log.info("transaction %s: aborted, because it is open for %d ms", transaction.txn_id, transaction.timeout_ms)
        self._endings.begin(transaction, commit=False)


def coordinator_not_found(coordinator_id: int) -> TransactionCoordinatorNotFound:
    """Returns the error with Apache's text (CoordinatorException.CoordinatorNotFoundException)."""
    return TransactionCoordinatorNotFound(f"Transaction coordinator with id {coordinator_id} not found!")
