"""The acknowledgements of one subscription in transactions: what the rules decide is stored in the log, and takes
effect when it is stored.

    ack     check for conflicts, hold the messages → append ACK → the consumer has acknowledged them
    commit  append COMMIT → acknowledge on the cursor what the transaction holds
    abort   append ABORT → deliver again what the transaction holds

The check and the hold come first, in one step: so the log has no acknowledgement that was refused, and two
acknowledgements of one message that are under way at the same time cannot both succeed. A crash after a COMMIT may lose
the cursor's acknowledgements, which are stored later; the replay of the log makes them again.

Source: PendingAckHandleImpl, which appends before it checks.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.task_failures import mark_seen
from magnetar.server.process.turns import SLICE_ITEMS, Steps, Turns, in_slices
from magnetar.server.topics.subscriptions.pending_acks.ack_groups import AckGroups, take_back
from magnetar.server.topics.subscriptions.pending_acks.end_counters import EndCounters
from magnetar.server.topics.subscriptions.pending_acks.ends_of_transactions import EndsOfTransactions
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLog, PendingAckLogs
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import PendingAckRules
from magnetar.server.topics.subscriptions.pending_acks.subscription_of_acks import SubscriptionOfAcks
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.backoff import backoff
from pulsar_proto.errors import MalformedRecord, NotAllowed, PulsarError, ServiceNotReady, TransactionNotFound
from pulsar_proto.ids import EARLIEST, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.records.pending_ack_log import (
    RECORD_POSITIONS_MAX,
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
)

log = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1
RETRY_LONGEST_S = 60.0
"""The pauses between two tries to read a log that cannot be read, or to ask about a transaction that nobody knows of
(PendingAckHandleImpl.initPendingAckStore)."""

READY_WITHIN_S = 20.0
"""How long a request waits for a log that is being read. Java's client waits 30 seconds for an answer."""


class PendingAckState(Enum):
    """The states of Apache's PendingAckHandleState, as the admin API names them."""

    NONE = "None"
    INITIALIZING = "Initializing"
    READY = "Ready"
    ERROR = "Error"
    CLOSE = "Close"


class PendingAcksOfTransactions:
    """What transactions have acknowledged on one subscription. Every method is called on the event loop's thread."""

    def __init__(
        self,
        topic: TopicName,
        subscription: str,
        owner: SubscriptionOfAcks,
        logs: PendingAckLogs,
        clock_ms: Callable[[], int],
    ) -> None:
        self.rules = PendingAckRules(topic.full, subscription, owner.cursor)
        self.state = PendingAckState.NONE
        self.recover_start_ms = 0
        self.recover_end_ms = 0
        """When the last reading of the log began and ended; 0 if it did not."""
        self.counters = EndCounters()
        self.log: PendingAckLog | None = None
        self._topic = topic
        self._subscription = subscription
        self._owner = owner
        self._logs = logs
        self._clock_ms = clock_ms
        self._failure = ""
        self._groups: AckGroups | None = None
        self._ends: EndsOfTransactions | None = None
        """Both are None until the log was read."""
        self._opening: asyncio.Task[None] | None = None
        self._aborting: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"{self._topic.full} / {self._subscription}: pending acks"

    # --- the log -----------------------------------------------------------------------------------------------------

    def recover(self, config: ManagedLedgerConfig) -> None:
        """Begins to read the log, which is made if there is none. Requests wait until it was read."""
        if self.state is PendingAckState.NONE:
            self.state = PendingAckState.INITIALIZING
            self._opening = asyncio.get_running_loop().create_task(self._recover(config))

    async def ready(self) -> None:
        """Waits until the log was read. Raises ServiceNotReady when it cannot be read."""
        if self._opening is not None and self.state is PendingAckState.INITIALIZING:
            await asyncio.wait([self._opening], timeout=READY_WITHIN_S)
        if self.state is not PendingAckState.READY:
            why = self._failure or self.state.value
            raise ServiceNotReady(f"The pending acknowledgements of {self._subscription} are not ready: {why}")

    async def _recover(self, config: ManagedLedgerConfig) -> None:
        failures = 0
        while self.state is PendingAckState.INITIALIZING:
            self.recover_start_ms = self._clock_ms()
            self.rules.clear()
            try:
                opened = await self._logs.open(self._topic, self._subscription, config, self._owner.lost_log)
                await opened.replay(self._replay)
            except MalformedRecord as error:
                self._failed(error, logging.ERROR)
            except ManagedLedgerError as error:
                if error.retriable:
                    failures += 1
                    self._failure = str(error)
                    log.warning("%s: not read, will be tried again: %s", self, error)
                else:  # another broker has taken the log over, or this one stops
                    self._failed(error, logging.WARNING)
            except Exception as error:
                log.exception("%s: not read", self)
                self._failed(error, logging.ERROR)
            else:
                self.log, self.state, self._failure = opened, PendingAckState.READY, ""
                self._groups = AckGroups(opened, self.rules, self._owner)
                self._ends = EndsOfTransactions(opened, self.rules, self._owner, self._groups, self.counters, str(self))
                self.recover_end_ms = self._clock_ms()
                log.info("%s: read, %d transactions are open", self, self.rules.transactions)
                self._aborting = asyncio.get_running_loop().create_task(self._abort_the_dead())
            if self.state is PendingAckState.INITIALIZING:
                await asyncio.sleep(backoff(failures, RETRY_FIRST_S, RETRY_LONGEST_S))

    def _failed(self, error: Exception, level: int) -> None:
        self._failure = str(error)
        if self.state is PendingAckState.INITIALIZING:
            self.state = PendingAckState.ERROR
            log.log(level, "%s: the log cannot be used: %s", self, error)

    def _replay(self, record: PendingAckRecord) -> Steps[None]:
        existing = yield from self._existing(record.positions)
        if record.positions and not existing:
            return
        for held in self.rules.replay(record._replace(positions=existing)):
            if held is not None:
                self._owner.commit_held(held)
            yield

    def _existing(self, positions: Sequence[PendingPosition]) -> Steps[tuple[PendingPosition, ...]]:
        """Returns the positions that the topic has. The others have no effect in any acknowledgement; here they would
        keep the log from being trimmed."""
        last = self._owner.last_position
        existing: list[PendingPosition] = []
        for start in range(0, len(positions), SLICE_ITEMS):
            existing += (each for each in positions[start : start + SLICE_ITEMS] if each.position <= last)
            yield
        return tuple(existing)

    async def forget_the_past(self) -> None:
        """Makes sure that the log, when it is read again, acknowledges nothing that is acknowledged now. Called before
        the subscription is moved to another position. Raises PulsarError when this cannot be stored."""
        await self.ready()
        assert self.log is not None
        assert self._ends is not None
        await self._ends.all_ended()
        last = self.log.last
        if last == EARLIEST:
            return
        self._ends.may_begin.clear()
        try:
            with storage_faults_told():
                turns, stored = Turns(), None
                for record in self.rules.records():
                    stored = self.log.stored([record])
                    await turns.breathe()
                if stored is not None:
                    await stored  # records become durable in order
                await self._owner.cursor.persisted()
                await self.log.forget_until(last)
        finally:
            self._ends.may_begin.set()

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def ack_few(
        self, txn_id: TxnId, consumer: object, positions: Sequence[PendingPosition], messages: int
    ) -> "asyncio.Future[None] | None":
        """Acknowledges `messages` messages, which are few, individually in a transaction, together with what else of
        the transaction is acknowledged in this turn of the event loop. Returns None when that is not possible now,
        because the log is being read or another broker has to be asked for the transaction; the caller then calls
        `ack`. Otherwise returns the future of `AckGroups.add`. The call and the future raise the errors of `ack`."""
        if self._groups is None or self.state is not PendingAckState.READY or not self._is_live_here(txn_id):
            return None
        self._check_open(txn_id)
        last = self._owner.last_position
        positions = [each for each in positions if each[:2] <= last]
        if not positions:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        self.rules.check(txn_id, positions)
        self.rules.hold(txn_id, positions)
        return self._groups.add(txn_id, consumer, positions, messages)

    def ack_entries(
        self, txn_id: TxnId, consumer: object, entries: Sequence[tuple[int, int]]
    ) -> "asyncio.Future[None] | None":
        """Does what `ack_few` does for whole entries, each by an acknowledgement of its own, when all of them can be
        held now. Otherwise returns None, and holds nothing."""
        if self._groups is None or self.state is not PendingAckState.READY or not self._is_live_here(txn_id):
            return None
        if self._is_over(txn_id) or max(entries) > self._owner.last_position:
            return None
        if not self.rules.hold_entries(txn_id, entries):
            return None
        positions = [PendingPosition(ledger_id, entry_id) for ledger_id, entry_id in entries]
        return self._groups.add(txn_id, consumer, positions, len(entries))

    async def ack(
        self, txn_id: TxnId, positions: Sequence[PendingPosition], *, cumulative: bool
    ) -> Sequence[PendingPosition]:
        """Acknowledges messages in a transaction: individually, or cumulatively up to the only position. Returns when
        this is durable: the positions without those that the topic does not have.

        Raises TransactionConflict when one of the messages is acknowledged or held already; TransactionNotFound or
        NotAllowed for a transaction that does not exist or has ended; and another PulsarError when the acknowledgement
        cannot be stored. Nothing is acknowledged then."""
        await self.ready()
        if not self.rules.holds(txn_id) and not await self._is_live(txn_id):
            raise TransactionNotFound(f"The transaction with this txdID `{txn_id}`not found ")
        self._check_open(txn_id)
        positions = await Turns().run(self._existing(positions))
        if positions:
            # What was begun is not left half done when the client goes away.
            storing = asyncio.get_running_loop().create_task(
                self._ack_cumulative(txn_id, positions[0]) if cumulative else self._ack_individual(txn_id, positions)
            )
            storing.add_done_callback(mark_seen)
            with storage_faults_told():
                await asyncio.shield(storing)
        return positions

    def _is_live_here(self, txn_id: TxnId) -> bool:
        """Whether the transaction is known to be live without asking anybody."""
        assert self._logs.transactions is not None, "nothing is acknowledged in transactions while they are off"
        return self.rules.holds(txn_id) or self._logs.transactions.known.is_live_here(txn_id)

    async def _is_live(self, txn_id: TxnId) -> bool:
        assert self._logs.transactions is not None, "nothing is acknowledged in transactions while they are off"
        live = self._logs.transactions.known.is_live(txn_id)
        return live if isinstance(live, bool) else await live

    def _is_over(self, txn_id: TxnId) -> bool:
        """Whether the transaction has ended here, or its end is under way."""
        assert self._ends is not None
        return self._ends.is_ending(txn_id) or self.rules.has_ended(txn_id)

    def _check_open(self, txn_id: TxnId) -> None:
        if self._is_over(txn_id):
            raise NotAllowed(f"Transaction [{txn_id}] has been ended. Please use a new transaction to ack messages.")

    async def _ack_individual(self, txn_id: TxnId, positions: Sequence[PendingPosition]) -> None:
        assert self.log is not None
        held: list[PendingPosition] = []
        try:
            async for some in in_slices(positions):
                self._check_open(txn_id)
                self.rules.check(txn_id, some)
                self.rules.hold(txn_id, some)
                held += some
            async for some in in_slices(held, RECORD_POSITIONS_MAX):
                self._check_open(txn_id)
                stored = self.log.stored([PendingAckRecord(PendingAckOp.ACK, txn_id, False, tuple(some))])
            await stored  # records become durable in order
        except Exception:
            take_back(self.rules, self._owner, txn_id, held)
            raise

    async def _ack_cumulative(self, txn_id: TxnId, position: PendingPosition) -> None:
        self._check_open(txn_id)
        self.rules.check_cumulative(txn_id, position)
        assert self.log is not None
        before = self.rules.cumulative
        self.rules.hold_cumulative(txn_id, position)
        try:
            await self.log.stored(
                [PendingAckRecord(PendingAckOp.ACK, txn_id, True, (position._replace(batch_size=None),))]
            )
        except ManagedLedgerError:
            self.rules.undo_cumulative(txn_id, position, before)
            raise

    # --- ends of transactions ----------------------------------------------------------------------------------------

    async def end(self, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        """Ends a transaction. Returns when that is durable, at once for a transaction that has acknowledged nothing
        here. May be called again for the same transaction. All transactions of the coordinator up to `low_watermark`
        (signed) have ended; what they still hold is given back. Raises PulsarError."""
        if self.state is PendingAckState.NONE:
            return
        await self.ready()
        assert self._ends is not None
        self.rules.note_end(txn_id, low_watermark)
        with storage_faults_told():
            if self._ends.is_ending(txn_id) or self.rules.holds(txn_id):
                await asyncio.shield(self._ends.begin(txn_id, commit))
        self._ends.abort_orphans(txn_id.most)

    def end_soon(self, txn_id: TxnId, commit: bool, low_watermark: int) -> "asyncio.Future[None] | None":
        """Begins to do what `end` does, and returns a future of it, which several callers may share and nobody cancels.
        Returns None when that takes a task: the caller then calls `end`."""
        ends = self._ends
        if ends is None or self.state is not PendingAckState.READY or not ends.is_quick(txn_id):
            return None
        self.rules.note_end(txn_id, low_watermark)
        ending = ends.begin(txn_id, commit)
        ends.abort_orphans(txn_id.most)
        return ending

    async def _abort_the_dead(self) -> None:
        """Aborts the transactions that the log says are open although their coordinators do not know them any more, so
        that no END will come for them. Apache's broker may leave such acknowledgements behind."""
        assert self._ends is not None
        unsure = self.rules.holders
        failures = 0
        while unsure and self.state is PendingAckState.READY:
            still = []
            for txn_id in unsure:
                try:
                    if self.rules.holds(txn_id) and not await self._is_live(txn_id) and self.rules.holds(txn_id):
                        log.info("%s: transaction %s is not known any more, and is aborted", self, txn_id)
                        self.rules.note_end(txn_id)
                        await asyncio.shield(self._ends.begin(txn_id, False))
                except (PulsarError, ManagedLedgerError) as error:
                    log.info("%s: transaction %s stays open: %s", self, txn_id, error)
                    still.append(txn_id)
            unsure = still
            failures += 1
            if unsure:
                await asyncio.sleep(backoff(failures, RETRY_FIRST_S, RETRY_LONGEST_S))

    async def close(self) -> None:
        """Closes the log. What is being stored may be stored or not."""
        self.state = PendingAckState.CLOSE
        for task in (self._opening, self._aborting):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._logs.close(self._topic, self._subscription)
        if self._ends is not None:
            await self._ends.all_ended()
