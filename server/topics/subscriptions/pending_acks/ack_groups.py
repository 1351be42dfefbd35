"""Gathers the acknowledgements that arrive in one turn of the event loop, so that those of one transaction are stored
as one record. Clients acknowledge each message by a command of its own, and a record for each command would cost more
than everything else that an acknowledgement does."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from magnetar.server.process.storage_faults import told_as
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLog
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import PendingAckRules
from magnetar.server.topics.subscriptions.pending_acks.subscription_of_acks import SubscriptionOfAcks
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import TxnId
from pulsar_proto.records.pending_ack_log import (
    RECORD_POSITIONS_MAX,
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
)

Accepted = Callable[[Sequence[PendingPosition]], None]
"""Called with the positions of an acknowledgement when it is stored. Must not raise."""


class AckGroup:
    """Individual acknowledgements of one transaction that are stored together."""

    __slots__ = ("_acks", "positions", "txn_id")

    def __init__(self, txn_id: TxnId) -> None:
        self.txn_id = txn_id
        self.positions: list[PendingPosition] = []
        """The positions of all acknowledgements of the group."""
        self._acks: list[tuple[Sequence[PendingPosition], Accepted, asyncio.Future[None]]] = []

    def add(self, positions: Sequence[PendingPosition], accepted: Accepted, ended: "asyncio.Future[None]") -> None:
        """Adds an acknowledgement, which `tell` tells of its outcome."""
        self.positions += positions
        self._acks.append((positions, accepted, ended))

    def tell(self, refusal: PulsarError | None) -> None:
        """Tells each acknowledgement that it is stored, or why it is not."""
        for positions, accepted, ended in self._acks:
            if refusal is None:
                accepted(positions)
                if not ended.done():  # it is done when its caller was cancelled
                    ended.set_result(None)
            elif not ended.done():
                ended.set_exception(refusal)


class AckGroups:
    """The acknowledgements on one subscription that are held and not handed to the log yet."""

    __slots__ = ("_groups", "_log", "_owner", "_rules")

    def __init__(self, log: PendingAckLog, rules: PendingAckRules, owner: SubscriptionOfAcks) -> None:
        self._log = log
        self._rules = rules
        self._owner = owner
        self._groups: dict[TxnId, AckGroup] = {}

    def add(self, txn_id: TxnId, positions: Sequence[PendingPosition], accepted: Accepted) -> "asyncio.Future[None]":
        """Adds an acknowledgement of at most RECORD_POSITIONS_MAX positions, which the rules hold. Returns a future
        that ends when the acknowledgement is durable and `accepted` was called. If it cannot be stored, the rules hold
        it no more, and the future raises PulsarError."""
        loop = asyncio.get_running_loop()
        group = self._groups.get(txn_id)
        if group is not None and len(group.positions) + len(positions) > RECORD_POSITIONS_MAX:
            self.flush()
            group = None
        if group is None:
            if not self._groups:
                loop.call_soon(self.flush)
            group = self._groups[txn_id] = AckGroup(txn_id)
        ended: asyncio.Future[None] = loop.create_future()
        group.add(positions, accepted, ended)
        return ended

    def flush(self) -> None:
        """Hands the acknowledgements to the log. Whoever appends something else to the log calls this first, so that
        the log keeps the order in which things happened."""
        groups, self._groups = self._groups, {}
        for group in groups.values():
            record = PendingAckRecord(PendingAckOp.ACK, group.txn_id, False, tuple(group.positions))
            self._log.append([record], partial(self._stored, group))
        if groups:
            self._log.push()

    def _stored(self, group: AckGroup, error: ManagedLedgerError | None) -> None:
        if error is None:
            group.tell(None)
        else:
            take_back(self._rules, self._owner, group.txn_id, group.positions)
            group.tell(told_as(error))


def take_back(
    rules: PendingAckRules, owner: SubscriptionOfAcks, txn_id: TxnId, positions: Sequence[PendingPosition]
) -> None:
    """Undoes individual acknowledgements that could not be stored."""
    rules.undo(txn_id, positions)
    owner.give_back([(each.ledger_id, each.entry_id) for each in positions], again=False)
