"""The ends of transactions on one subscription: each is stored in the log, and takes effect when it is stored.

A transaction with few acknowledgements ends without a task, because every transaction ends once on each subscription.
"""

import asyncio
import logging
from functools import partial

from magnetar.server.process.storage_faults import told_as
from magnetar.server.process.turns import Turns
from magnetar.server.topics.subscriptions.pending_acks.ack_groups import AckGroups
from magnetar.server.topics.subscriptions.pending_acks.end_counters import EndCounters
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLog
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import Held, PendingAckRules
from magnetar.server.topics.subscriptions.pending_acks.subscription_of_acks import SubscriptionOfAcks
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.ids import TxnId
from pulsar_proto.records.pending_ack_log import PendingAckOp, PendingAckRecord

log = logging.getLogger(__name__)

PORTION_ENTRIES = 1_000
"""How many entries of an ended transaction are acknowledged or given back before other tasks run."""


class EndsOfTransactions:
    """The ends on one subscription whose log was read. Every method is called on the event loop's thread."""

    def __init__(
        self,
        log_of_acks: PendingAckLog,
        rules: PendingAckRules,
        owner: SubscriptionOfAcks,
        groups: AckGroups,
        counters: EndCounters,
        label: str,
    ) -> None:
        """`label` begins the lines of the log."""
        self.may_begin = asyncio.Event()
        """Whether ends may be stored; they wait while what transactions hold is stored anew."""
        self.may_begin.set()
        self._log = log_of_acks
        self._rules = rules
        self._owner = owner
        self._groups = groups
        self._counters = counters
        self._label = label
        self._under_way: dict[TxnId, asyncio.Future[None]] = {}

    def is_ending(self, txn_id: TxnId) -> bool:
        """Whether the end of the transaction is being stored."""
        return txn_id in self._under_way

    def is_quick(self, txn_id: TxnId) -> bool:
        """Whether `begin` needs no task, because the end is stored by one record and takes effect in one portion."""
        is_short = 0 < self._rules.count_of(txn_id) <= PORTION_ENTRIES and not self._has_cumulative(txn_id)
        return is_short and self.may_begin.is_set() and txn_id not in self._under_way

    def _has_cumulative(self, txn_id: TxnId) -> bool:
        cumulative = self._rules.cumulative
        return cumulative is not None and cumulative[0] == txn_id

    async def all_ended(self) -> None:
        """Returns when no end is being stored."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    def begin(self, txn_id: TxnId, commit: bool) -> "asyncio.Future[None]":
        """Begins to end a transaction that holds something, or joins its end that is under way. The result comes when
        the end is durable and has taken effect, and raises ManagedLedgerError or PulsarError; a caller that may be
        cancelled shields it."""
        ending = self._under_way.get(txn_id)
        if ending is None:
            loop = asyncio.get_running_loop()
            ending = (
                self._quick(txn_id, commit) if self.is_quick(txn_id) else loop.create_task(self._end(txn_id, commit))
            )
            self._under_way[txn_id] = ending
            ending.add_done_callback(partial(self._ended, txn_id, commit, loop.time()))
        return ending

    def abort_orphans(self, most: int) -> None:
        """Begins to abort the transactions of a coordinator that have ended elsewhere, as its low watermark says."""
        for orphan in self._rules.orphans(most):
            if orphan not in self._under_way:
                log.info("%s: transaction %s has ended elsewhere, and is aborted", self._label, orphan)
                self.begin(orphan, False)

    def _quick(self, txn_id: TxnId, commit: bool) -> "asyncio.Future[None]":
        self._groups.flush()  # so that the log keeps the order in which things happened
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stored(error: ManagedLedgerError | None) -> None:
            if error is not None:
                ended.set_exception(told_as(error))
                return
            self._take_effect(self._rules.let_go(txn_id), commit)
            ended.set_result(None)
            self._log.trim(self._owner.cursor)

        self._log.append([PendingAckRecord(_op(commit), txn_id)], stored)
        return ended

    async def _end(self, txn_id: TxnId, commit: bool) -> None:
        await self.may_begin.wait()
        has_cumulative = self._has_cumulative(txn_id)
        has_individual = self._rules.count_of(txn_id) > 0 or not has_cumulative
        # Apache's broker, when it reads a COMMIT of one type, acknowledges nothing of the other type.
        kinds = [is_cumulative for is_cumulative, has in ((False, has_individual), (True, has_cumulative)) if has]
        await self._log.stored([PendingAckRecord(_op(commit), txn_id, is_cumulative) for is_cumulative in kinds])
        turns = Turns()
        while self._rules.holds(txn_id):
            self._take_effect(self._rules.let_go(txn_id, PORTION_ENTRIES), commit)
            await turns.breathe()
        self._log.trim(self._owner.cursor)

    def _take_effect(self, held: Held, commit: bool) -> None:
        if commit:
            self._owner.commit_held(held)
        else:
            self._owner.give_back(held.parts, again=True)

    def _ended(self, txn_id: TxnId, commit: bool, began_s: float, ending: "asyncio.Future[None]") -> None:
        del self._under_way[txn_id]
        error = None if ending.cancelled() else ending.exception()
        seconds = asyncio.get_running_loop().time() - began_s
        self._counters.ended(commit, error is None and not ending.cancelled(), seconds)
        if error is not None:
            log.warning("%s: the end of transaction %s was not stored: %s", self._label, txn_id, error)


def _op(commit: bool) -> PendingAckOp:
    return PendingAckOp.COMMIT if commit else PendingAckOp.ABORT
