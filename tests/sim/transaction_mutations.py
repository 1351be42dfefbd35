"""Bugs of transactions, planted on purpose. With each of them some history breaks a claim."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import PendingAckRules
from magnetar.server.topics.transactions.buffer_rules import OpenTransactions
from magnetar.server.transactions.coordinator import TransactionCoordinator
from magnetar.server.transactions.coordinator_rules import Transaction, TransactionTable
from magnetar.server.transactions.endings import Ending, Endings
from magnetar.server.transactions.log_place import LogPlace
from magnetar.server.transactions.transaction_log import TransactionLog
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.transaction_log import Record, TxnStatus
from tests.sim.transaction_history import tell_of_transactions

Mutation = Callable[[], AbstractContextManager[Any]]


def _the_end_is_answered_although_no_topic_was_told() -> AbstractContextManager[Any]:
    async def tell(self: Endings, ending: Ending, partitions: list[str]) -> None:
        pass

    return patch.object(Endings, "_tell_participants", tell)


def _only_one_topic_is_told() -> AbstractContextManager[Any]:
    calls_of = Endings._calls_of

    def without(self: Endings, ending: Ending, partitions: list[str]) -> Iterator[Any]:
        del partitions[1:]
        return calls_of(self, ending, partitions)

    return patch.object(Endings, "_calls_of", without)


def _subscriptions_are_not_told() -> AbstractContextManager[Any]:
    calls_of = Endings._calls_of

    def without(self: Endings, ending: Ending, partitions: list[str]) -> Iterator[Any]:
        ending.subscriptions.clear()
        return calls_of(self, ending, partitions)

    return patch.object(Endings, "_calls_of", without)


def _the_decision_is_not_stored_before_topics_are_told() -> AbstractContextManager[Any]:
    change = TransactionCoordinator.change_status

    async def late(self: TransactionCoordinator, transaction: Transaction, new: TxnStatus) -> None:
        if new in (TxnStatus.COMMITTING, TxnStatus.ABORTING):
            return
        decision = TxnStatus.COMMITTING if new is TxnStatus.COMMITTED else TxnStatus.ABORTING
        await change(self, transaction, decision)
        await change(self, transaction, new)

    return patch.object(TransactionCoordinator, "change_status", late)


def _decided_transactions_are_not_ended_after_a_restart() -> AbstractContextManager[Any]:
    async def resume(self: TransactionCoordinator) -> None:
        for transaction in self.table:
            if transaction.status is TxnStatus.OPEN:
                self._deadlines.add(transaction.txn_id.least, transaction.timeout_ms / 1000)

    return patch.object(TransactionCoordinator, "_resume", resume)


def _open_transactions_do_not_time_out_after_a_restart() -> AbstractContextManager[Any]:
    async def resume(self: TransactionCoordinator) -> None:
        for transaction in list(self.table):
            if transaction.status is not TxnStatus.OPEN:
                self._endings.begin(transaction, commit=transaction.status is TxnStatus.COMMITTING)

    return patch.object(TransactionCoordinator, "_resume", resume)


def _ids_begin_anew_after_a_restart() -> AbstractContextManager[Any]:
    async def last_counter(self: TransactionLog) -> int:
        return -1

    apply = TransactionTable.apply

    def without(self: TransactionTable, record: Record, place: LogPlace) -> Any:
        before = self.counter
        result = apply(self, record, place)
        self.counter = before
        return result

    stack = ExitStack()
    stack.enter_context(patch.object(TransactionTable, "apply", without))
    stack.enter_context(patch.object(TransactionLog, "last_counter", last_counter))
    return stack


def _messages_of_open_transactions_are_given_out() -> AbstractContextManager[Any]:
    return patch.object(OpenTransactions, "_find_bound", lambda self: None)


def _aborted_transactions_are_forgotten() -> AbstractContextManager[Any]:
    def aborted_at(self: OpenTransactions, txn_id: TxnId, marker: Position) -> None:
        self._ended(txn_id)

    return patch.object(OpenTransactions, "aborted_at", aborted_at)


def _a_restart_forgets_the_aborted_transactions_of_a_snapshot() -> AbstractContextManager[Any]:
    return patch.object(OpenTransactions, "restore", lambda self, aborted: None)


def _conflicting_acknowledgements_are_taken() -> AbstractContextManager[Any]:
    return patch.object(PendingAckRules, "check", lambda self, txn_id, positions: None)


def _a_restart_forgets_what_transactions_have_acknowledged() -> AbstractContextManager[Any]:
    return patch.object(PendingAckRules, "replay", lambda self, record: None)


MUTATIONS: dict[str, Mutation] = {
    each.__name__.removeprefix("_"): each
    for each in (
        _the_end_is_answered_although_no_topic_was_told,
        _only_one_topic_is_told,
        _subscriptions_are_not_told,
        _the_decision_is_not_stored_before_topics_are_told,
        _decided_transactions_are_not_ended_after_a_restart,
        _open_transactions_do_not_time_out_after_a_restart,
        _ids_begin_anew_after_a_restart,
        _messages_of_open_transactions_are_given_out,
        _aborted_transactions_are_forgotten,
        _a_restart_forgets_the_aborted_transactions_of_a_snapshot,
        _conflicting_acknowledgements_are_taken,
        _a_restart_forgets_what_transactions_have_acknowledged,
    )
}


def first_broken(name: str, *, seeds: int) -> tuple[int, str] | None:
    """Returns the first seed whose history breaks a claim with this bug, with the complaint, or None."""
    with MUTATIONS[name]():
        for seed in range(seeds):
            try:
                tell_of_transactions(seed)
            except Exception as error:
                return seed, f"{type(error).__name__}: {error}"
    return None
