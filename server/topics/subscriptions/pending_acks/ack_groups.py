"""Gathers the acknowledgements that arrive in one turn of the event loop, so that those of one transaction are stored
as one record. Clients acknowledge each message by a command of its own, and a record for each command would cost more
than everything else that an acknowledgement does."""

import asyncio
from collections.abc import Sequence
from functools import partial

from magnetar.server.process.storage_faults import told_as
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLog
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import PendingAckRules
from magnetar.server.topics.subscriptions.pending_acks.subscription_of_acks import SubscriptionOfAcks
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.ids import TxnId
from pulsar_proto.records.pending_ack_log import (
    RECORD_POSITIONS_MAX,
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
)


class AckGroup:
    """Individual acknowledgements of one transaction that are stored together."""

    __slots__ = ("ended", "of_consumers", "positions", "txn_id")

    def __init__(self, txn_id: TxnId) -> None:
        self.txn_id = txn_id
        self.positions: list[PendingPosition] = []
        """The positions of all acknowledgements of the group."""
        self.of_consumers: dict[object, tuple[list[PendingPosition], list[int]]] = {}
        """What each consumer has acknowledged: the positions, and how many messages each command named."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, consumer: object, positions: Sequence[PendingPosition], messages: int) -> None:
        self.positions += positions
        of_consumer = self.of_consumers.get(consumer)
        if of_consumer is None:
            of_consumer = self.of_consumers[consumer] = ([], [])
        of_consumer[0].extend(positions)
        of_consumer[1].append(messages)


class AckGroups:
    """The acknowledgements on one subscription that are held and not handed to the log yet."""

    __slots__ = ("_groups", "_log", "_owner", "_rules")

    def __init__(self, log: PendingAckLog, rules: PendingAckRules, owner: SubscriptionOfAcks) -> None:
        self._log = log
        self._rules = rules
        self._owner = owner
        self._groups: dict[TxnId, AckGroup] = {}

    def add(
        self, txn_id: TxnId, consumer: object, positions: Sequence[PendingPosition], messages: int
    ) -> "asyncio.Future[None]":
        """Adds an acknowledgement of at most RECORD_POSITIONS_MAX positions, which the rules hold. Returns a future
        that ends when the acknowledgement is durable and the subscription was told of it. If it cannot be stored, the
        rules hold it no more, and the future raises PulsarError. Several acknowledgements share the future, so a caller
        that may be cancelled shields it."""
        group = self._groups.get(txn_id)
        if group is not None and len(group.positions) + len(positions) > RECORD_POSITIONS_MAX:
            self.flush()
            group = None
        if group is None:
            if not self._groups:
                asyncio.get_running_loop().call_soon(self.flush)
            group = self._groups[txn_id] = AckGroup(txn_id)
        group.add(consumer, positions, messages)
        return group.ended

    def flush(self) -> None:
        """Hands the acknowledgements to the log. Whoever stores an end of a transaction in the same turn of the loop
        calls this before, so that the log keeps the order in which things happened."""
        groups, self._groups = self._groups, {}
        for group in groups.values():
            record = PendingAckRecord(PendingAckOp.ACK, group.txn_id, False, tuple(group.positions))
            self._log.append([record], partial(self._stored, group))
        if groups:
            self._log.push()

    def _stored(self, group: AckGroup, error: ManagedLedgerError | None) -> None:
        if error is not None:
            take_back(self._rules, self._owner, group.txn_id, group.positions)
            group.ended.set_exception(told_as(error))
            return
        for consumer, (positions, messages) in group.of_consumers.items():
            self._owner.acknowledged(consumer, positions, sum(messages))
        group.ended.set_result(None)


def take_back(
    rules: PendingAckRules, owner: SubscriptionOfAcks, txn_id: TxnId, positions: Sequence[PendingPosition]
) -> None:
    """Undoes individual acknowledgements that could not be stored."""
    rules.undo(txn_id, positions)
    owner.give_back([(each.ledger_id, each.entry_id) for each in positions], again=False)
