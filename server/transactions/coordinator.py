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
from magnetar.server.transactions.coordinator_rules import Transaction, TransactionTable
from magnetar.server.transactions.deadlines import Deadlines
from magnetar.server.transactions.end_calls import EndCalls
from magnetar.server.transactions.endings import Endings
from magnetar.server.transactions.log_place import LogPlace
from magnetar.server.transactions.transaction_log import TransactionLog
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import InvalidTxnStatus, TransactionCoordinatorNotFound
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
        self._appends: set[asyncio.Future[None]] = set()

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
        except BaseException:
            await transaction_log.close()
            raise
        transaction_log.on_lost(coordinator._lost)
        await coordinator._resume()
        return coordinator

    def __str__(self) -> str:
        return f"transaction coordinator {self.coordinator_id}"

    @property
    def is_ready(self) -> bool:
        return self.state is CoordinatorState.READY

    @property
    def low_watermark(self) -> int:
        return self.table.low_watermark

    # --- requests of clients -----------------------------------------------------------------------------------------

    async def new(self, timeout_ms: int, owner: str | None) -> TxnId:
        """Begins a transaction that is aborted after `timeout_ms`, and returns its id. `owner` is the role of the
        client if there is authentication. Raises TooManyRequests, TransactionCoordinatorNotFound."""
        self.check_ready()
        txn_id = self.table.next_id()
        now_ms = self._clock_ms()
        await self._append(
            new_record(
                txn_id,
                counter=self.table.counter,
                now_ms=now_ms,
                timeout_ms=unsigned64(timeout_ms),
                owner=owner,
            )
        )
        self.counters.created += 1
        self._deadlines.add(txn_id.least, signed64(timeout_ms) / 1000)
        return txn_id

    async def add_partitions(self, txn_id: TxnId, partitions: Iterable[str]) -> None:
        """Remembers that the transaction publishes to these partitions. Raises TransactionNotFound, InvalidTxnStatus,
        NotAllowed, TransactionCoordinatorNotFound."""
        self.check_ready()
        names = tuple(dict.fromkeys(partitions))
        self.table.check_participants(txn_id, names, len(names))
        await self._append(partitions_record(txn_id, names, counter=self.table.counter, now_ms=self._clock_ms()))

    async def add_subscriptions(self, txn_id: TxnId, subscriptions: Iterable[tuple[str, str]]) -> None:
        """Remembers that the transaction acknowledges messages in these subscriptions, each (topic, subscription).
        Raises as `add_partitions` does."""
        self.check_ready()
        pairs = tuple(dict.fromkeys(subscriptions))
        self.table.check_participants(txn_id, [name for pair in pairs for name in pair], len(pairs))
        await self._append(subscriptions_record(txn_id, pairs, counter=self.table.counter, now_ms=self._clock_ms()))

    async def end(self, txn_id: TxnId, *, commit: bool) -> None:
        """Ends the transaction, and returns when it has ended everywhere, which may take as long as some participant
        cannot be reached. The ending goes on when the caller is cancelled. Raises TransactionNotFound,
        InvalidTxnStatus, TransactionCoordinatorNotFound."""
        self.check_ready()
        transaction = self.table.check_end(txn_id, commit=commit)
        await asyncio.shield(self._endings.begin(transaction, commit=commit))

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

    async def _append(self, record: Record) -> None:
        """Appends a record, and makes its change when the record is durable. Raises InvalidTxnStatus when the change is
        not allowed any more then, and TransactionCoordinatorNotFound when the coordinator is closed meanwhile."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(outcome: LogPlace | ManagedLedgerError) -> None:
            if self.state is CoordinatorState.CLOSED:
                return
            if isinstance(outcome, ManagedLedgerError):
                self._lost(outcome)
                return
            try:
                self._apply(record, outcome)
            except InvalidTxnStatus as error:
                if not waiting.done():
                    waiting.set_exception(error)
            else:
                if not waiting.done():
                    waiting.set_result(None)

        self._appends.add(waiting)
        try:
            self.log.append(record, done)
            await waiting
        finally:
            self._appends.discard(waiting)

    def _apply(self, record: Record, place: LogPlace) -> None:
        """Makes the change of a durable record, and deletes the records that nobody needs any more. Raises
        InvalidTxnStatus."""
        try:
            useless = self.table.apply(record, place)
        except InvalidTxnStatus:
            self.log.delete([place])
            raise
        if useless:
            self.log.delete(useless)
            self._deadlines.discard(record.txnid_least_bits)

    async def change_status(self, transaction: Transaction, new: TxnStatus) -> None:
        """Stores a change of a transaction's status, and makes it. Has no effect when the transaction has that status.
        Raises as `_append` does."""
        self.check_ready()
        if transaction.status is new:
            return
        await self._append(
            update_record(
                transaction.txn_id,
                transaction.status,
                new,
                counter=self.table.counter,
                now_ms=self._clock_ms(),
            )
        )
        self.counters.changed(new, self._clock_ms() - transaction.started_ms)

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
