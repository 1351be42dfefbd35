"""What acknowledgements in transactions change of a subscription, and how they are begun.

A subscription without such acknowledgements has no `pending_acks`: they are made by the first acknowledgement in a
transaction, or when the topic is loaded and the subscription has a log. Source: PersistentSubscription, Consumer.
"""

import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pyroaring import BitMap

from magnetar.server.process.turns import for_each, in_slices
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.outgoing_messages import bits_set
from magnetar.server.topics.subscriptions.pending_acks.batch_parts import WHOLE
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import Held
from magnetar.server.topics.subscriptions.pending_acks.pending_acks import PendingAcksOfTransactions
from magnetar.server.topics.subscriptions.pending_acks.withheld_acks import WithheldAcks
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import NotAllowed
from pulsar_proto.ids import Position, TxnId, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.pending_ack_log import PendingPosition

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription
    from magnetar.server.topics.subscriptions.subscription_topic import PersistentSubscriptionTopic

log = logging.getLogger(__name__)

LOGS_AT_ONCE = 32
"""How many logs of a topic's subscriptions are looked for, or closed, at the same time."""


class HeldMessages:
    """Applies the ends of transactions to a subscription. Implements `pending_acks.SubscriptionOfAcks`."""

    __slots__ = ("_subscription",)

    def __init__(self, subscription: "Subscription") -> None:
        self._subscription = subscription

    @property
    def cursor(self) -> Cursor:
        return self._subscription.cursor

    @property
    def last_position(self) -> Position:
        return self._subscription.topic.ledger.last_confirmed

    def acknowledged(self, consumer: object, positions: Sequence[PendingPosition], messages: int) -> None:
        assert isinstance(consumer, Consumer), "the subscription acknowledges for its consumers"
        consumer.counters.acked(messages)
        _settle(self._subscription, consumer, positions)

    def commit_held(self, held: Held) -> None:
        subscription = self._subscription
        cursor = subscription.cursor
        cursor.ack(held.acks)
        if held.cumulative is not None:
            cursor.ack_cumulative(*held.cumulative.position, held.cumulative.ack_set or None)
        dispatcher = subscription.dispatcher
        if isinstance(dispatcher, SharedDispatcher) and dispatcher.redelivery_counts:
            for ledger_id, entry_id in held.parts:
                if cursor.is_acked(ledger_id, entry_id):
                    dispatcher.redelivery_counts.forget(ledger_id, entry_id)
        subscription.tell_end_if_reached()

    def give_back(self, entries: Collection[tuple[int, int]], *, again: bool) -> None:
        dispatcher = self._subscription.dispatcher
        if isinstance(dispatcher, SharedDispatcher):
            ledgers: dict[int, BitMap] = {}
            for ledger_id, entry_id in entries:
                ledgers.setdefault(ledger_id, BitMap()).add(entry_id)
            for ledger_id in sorted(ledgers):
                dispatcher.give_back(ledger_id, ledgers[ledger_id], again=again)
        elif (
            isinstance(dispatcher, SingleActiveDispatcher)
            and dispatcher.active is not None
            and any(True for _ in entries)
        ):
            # The order is kept: the active consumer gets everything again that it has not acknowledged.
            dispatcher.rewind_for(dispatcher.active)

    def lost_log(self, error: ManagedLedgerError) -> None:
        self._subscription.topic.lost_ledger(error)


def pending_acks_of(subscription: "Subscription") -> PendingAcksOfTransactions:
    """Returns the subscription's acknowledgements in transactions. If there are none yet, begins to make their log."""
    pending = subscription.pending_acks
    if pending is None:
        topic = subscription.topic
        assert topic.pending_ack_logs is not None
        pending = PendingAcksOfTransactions(
            topic.name, subscription.name, HeldMessages(subscription), topic.pending_ack_logs, now_ms
        )
        subscription.pending_acks = pending
        if subscription.dispatcher is not None:
            subscription.dispatcher.acks = subscription.deliverable(subscription.dispatcher.acks)
        pending.recover(topic.ledger.config)
    return pending


async def recover_pending_acks(topic: "PersistentSubscriptionTopic", subscriptions: Iterable["Subscription"]) -> None:
    """Called when a topic is loaded: begins to read the logs of those subscriptions that have one. Subscribers wait
    until theirs was read. Raises MetaStoreFault when it cannot be known which subscriptions have one."""
    logs = topic.pending_ack_logs
    if logs is None or logs.transactions is None or not logs.transactions.known.are_in_use:
        return

    async def recover(subscription: "Subscription") -> None:
        assert logs is not None
        if await logs.exists(topic.name, subscription.name):
            pending_acks_of(subscription)

    durable = [each for each in subscriptions if each.cursor.durable]
    await for_each(durable, recover, at_once=LOGS_AT_ONCE)


async def close_pending_acks(subscriptions: Iterable["Subscription"]) -> None:
    """Called when a topic is closed, before its cursors are: closes the logs of acknowledgements in transactions."""
    open_ones = [each.pending_acks for each in subscriptions if each.pending_acks is not None]
    await for_each(open_ones, PendingAcksOfTransactions.close, at_once=LOGS_AT_ONCE)


async def delete_pending_acks(topic: "PersistentSubscriptionTopic", subscriptions: Iterable["Subscription"]) -> None:
    """Called when a topic is deleted, after it was closed: deletes the logs of acknowledgements in transactions. Raises
    MetaStoreFault."""
    logs = topic.pending_ack_logs
    if logs is not None:
        for subscription in subscriptions:
            await logs.delete(topic.name, subscription.name)


FEW_IDS = 200
"""An acknowledgement of so many messages is applied at once. One of more messages becomes a task, which lets other
tasks run meanwhile."""


def ack_in_transaction(subscription: "Subscription", consumer: Consumer, command: pb.CommandAck) -> Awaitable[None]:
    """Applies an ACK of a transaction. The result ends when the acknowledgement is durable. The call and the result
    raise NotAllowed for what cannot be acknowledged in a transaction, and the errors of
    `PendingAcksOfTransactions.ack`."""
    logs = subscription.topic.pending_ack_logs
    if logs is None or logs.transactions is None:
        raise NotAllowed("Transactions are not enabled.")
    if not subscription.cursor.durable:
        raise NotAllowed("A reader cannot acknowledge messages in a transaction.")
    message_ids = command.message_id
    is_cumulative = command.ack_type == pb.CommandAck.Cumulative
    if is_cumulative and consumer.pending is not None:
        raise NotAllowed(f"A {subscription.type_name} subscription takes no cumulative acknowledgements.")
    if is_cumulative and len(message_ids) != 1:
        raise NotAllowed("A cumulative acknowledgement in a transaction names one message.")
    txn_id = TxnId(command.txnid_most_bits, command.txnid_least_bits)
    pending = pending_acks_of(subscription)
    if not is_cumulative and len(message_ids) <= FEW_IDS:
        positions = _positions(subscription, message_ids, is_cumulative)
        if len(positions) > 1:
            positions = list(dict.fromkeys(positions))
        acknowledged = pending.ack_few(txn_id, consumer, positions, len(message_ids))
        if acknowledged is not None:
            return acknowledged
    return _ack_in_task(subscription, consumer, txn_id, message_ids, is_cumulative)


async def _ack_in_task(
    subscription: "Subscription",
    consumer: Consumer,
    txn_id: TxnId,
    message_ids: Sequence[pb.MessageIdData],
    is_cumulative: bool,
) -> None:
    """Applies an ACK that takes long, or that has to wait until it can be judged."""
    positions: dict[PendingPosition, None] = {}
    async for some in in_slices(message_ids):
        positions.update(dict.fromkeys(_positions(subscription, some, is_cumulative)))
    stored = await pending_acks_of(subscription).ack(txn_id, list(positions), cumulative=is_cumulative)
    consumer.counters.acked(len(message_ids))
    if not is_cumulative:
        async for part in in_slices(stored):
            _settle(subscription, consumer, part)


def _positions(
    subscription: "Subscription", message_ids: Iterable[pb.MessageIdData], is_cumulative: bool
) -> list[PendingPosition]:
    """Returns what message ids acknowledge."""
    positions = [_position(subscription, each, is_cumulative) for each in message_ids]
    return [each for each in positions if each is not None]


def _position(
    subscription: "Subscription", message_id: pb.MessageIdData, is_cumulative: bool
) -> PendingPosition | None:
    """Returns what one message id acknowledges, or None for nothing. As without a transaction, an ack set counts only
    where messages of batches are acknowledged one by one."""
    ledger_id, entry_id, ack_set = signed64(message_id.ledgerId), signed64(message_id.entryId), message_id.ack_set
    if not 0 <= entry_id < ENTRY_ID_END or ledger_id < 0:
        return None
    if not ack_set:
        return PendingPosition(ledger_id, entry_id, (), message_id.batch_size)
    if subscription.keeps(ack_set):
        words = tuple(ack_set) if bits_set(ack_set) else ()
        return PendingPosition(ledger_id, entry_id, words, message_id.batch_size)
    if is_cumulative:
        return PendingPosition(*subscription.topic.ledger.previous_position(Position(ledger_id, entry_id)))
    return None


def _settle(subscription: "Subscription", consumer: Consumer, positions: Sequence[PendingPosition]) -> None:
    """Takes acknowledged messages off the consumer that has them."""
    dispatcher, pending = subscription.dispatcher, subscription.pending_acks
    if not isinstance(dispatcher, SharedDispatcher) or consumer.pending is None or pending is None:
        return
    cursor, rules = subscription.cursor, pending.rules
    view = WithheldAcks(cursor, rules)
    for each in positions:
        ledger_id, entry_id = each.ledger_id, each.entry_id
        remaining = 0
        if rules.held_of(ledger_id, entry_id) is not WHOLE and not cursor.is_acked(ledger_id, entry_id):
            words = view.ack_set_of(ledger_id, entry_id)
            if words is None:
                continue  # the transaction was aborted meanwhile
            remaining = bits_set(words)
        dispatcher.settle(consumer, ledger_id, entry_id, remaining, withheld=True)
    dispatcher.settled()
