"""Takes the snapshot of a subscription from the live objects. Nothing is changed and nothing is read from the log."""

import asyncio
from dataclasses import replace
from itertools import islice

from pyroaring import BitMap

from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.non_persistent.subscription import NonPersistentSubscription
from magnetar.server.topics.refusals import Refused
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import Throttle
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher
from magnetar.server.topics.subscriptions.key_shared_rules import SLOTS
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from magnetar.server.why.subscription_snapshot import (
    BacklogSnapshot,
    ConsumerSnapshot,
    KeyWait,
    OldestEntry,
    OpenTransactionSnapshot,
    ReadSnapshot,
    RefusedSnapshot,
    SubscriptionSnapshot,
    ThrottleSnapshot,
)

DUE_LOOKED_AT_MAX = 5_000
"""Among how many delayed messages of the topic the first one of a subscription is looked for."""

KEY_WAITS_MAX = 500
"""At how many hashes with waiting entries the snapshot looks."""


def subscription_snapshot(
    topic: BaseTopic, subscription: BaseSubscription, now_ms: int, oldest: OldestEntry | None = None
) -> SubscriptionSnapshot:
    """Returns the snapshot. `oldest` is what the first entries of the backlog have shown, if they were read."""
    if isinstance(subscription, Subscription):
        return replace(_persistent(topic, subscription, now_ms), oldest=oldest)
    return SubscriptionSnapshot(
        name=subscription.name,
        now_ms=now_ms,
        kind=subscription.type_name,
        is_stored=False,
        is_durable=subscription.is_durable,
        is_ending=subscription.has_ended,
        last_active_ms=subscription.last_active_ms,
        consumers=_consumers(subscription),
        dropped=subscription.dropped if isinstance(subscription, NonPersistentSubscription) else 0,
        refused=refused_snapshot(topic.refusals.of_subscription(subscription.name)),
    )


def refused_snapshot(refused: Refused | None) -> RefusedSnapshot | None:
    return None if refused is None else RefusedSnapshot(*refused)


def _persistent(topic: BaseTopic, subscription: Subscription, now_ms: int) -> SubscriptionSnapshot:
    loop_s = asyncio.get_running_loop().time()
    dispatcher = subscription.dispatcher if subscription.consumers else None
    shared = dispatcher if isinstance(dispatcher, SharedDispatcher) else None
    by_key = dispatcher if isinstance(dispatcher, KeySharedDispatcher) else None
    read = None if dispatcher is None else dispatcher.read_under_way
    return SubscriptionSnapshot(
        name=subscription.name,
        now_ms=now_ms,
        kind=subscription.type_name,
        is_durable=subscription.is_durable,
        is_moving=subscription.is_moving,
        is_ending=subscription.has_ended,
        last_active_ms=subscription.last_active_ms,
        consumers=_consumers(subscription),
        switch_seconds=dispatcher.switch_seconds if isinstance(dispatcher, SingleActiveDispatcher) else None,
        backlog=_backlog(subscription, dispatcher),
        log_is_compacted=dispatcher is not None and dispatcher.log_is_compacted,
        is_terminated=topic.is_terminated,
        failure="" if dispatcher is None else dispatcher.failure,
        retry_seconds=None if dispatcher is None else dispatcher.retry_seconds,
        read=None if read is None else ReadSnapshot(read.position, loop_s - read.began_s),
        transaction=_open_transaction(topic),
        throttles=() if dispatcher is None else tuple(_throttle(each, loop_s) for each in dispatcher.throttles),
        unacked=subscription.unacked_messages,
        unacked_max=0 if shared is None else shared.unacked_max,
        blocked=subscription.is_blocked,
        delays_are_full=shared is not None and shared.delays_are_full,
        look_ahead=0 if by_key is None else len(by_key.replay),
        look_ahead_max=None if by_key is None else by_key.look_ahead_max(),
        key_waits=() if by_key is None else tuple(_key_waits(by_key, loop_s)),
        key_waits_are_all=by_key is None or by_key.order.waiting_slots <= KEY_WAITS_MAX,
        hashes_without_consumer=0 if by_key is None else _hashes_without_consumer(by_key),
        chunk_waits=()
        if shared is None
        else tuple((consumer.name, len(queue)) for consumer, queue in shared.chunks.waiting.items()),
        refused=refused_snapshot(topic.refusals.of_subscription(subscription.name)),
    )


def _consumers(subscription: BaseSubscription) -> tuple[ConsumerSnapshot, ...]:
    active = subscription.active_consumer
    return tuple(_consumer(each, is_active=each is active) for each in subscription.consumers)


def _consumer(consumer: Consumer, *, is_active: bool) -> ConsumerSnapshot:
    cnx, pending = consumer.cnx, consumer.pending
    # The values by their order, because names would take half of the time for a thousand consumers.
    return ConsumerSnapshot(
        consumer.name,
        cnx.remote_address,
        consumer.connected_ms,
        consumer.permits,
        0 if pending is None else pending.messages,
        0 if pending is None else consumer.unacked_max,
        consumer.blocked,
        is_active,
        cnx.is_writable,
    )


def _open_transaction(topic: BaseTopic) -> OpenTransactionSnapshot | None:
    if not isinstance(topic, Topic) or topic.transactions is None:
        return None
    transactions, ledger = topic.transactions.transactions, topic.ledger
    oldest = transactions.oldest()
    if oldest is None:
        return None
    held_back = ledger.entries_between(transactions.max_read_position, ledger.last_confirmed)
    first, since_ms = transactions.open[oldest]
    return OpenTransactionSnapshot(str(oldest), first, since_ms, len(transactions.open) - 1, held_back)


def _throttle(throttle: Throttle, now_s: float) -> ThrottleSnapshot:
    balance = throttle.balance(now_s)
    return ThrottleSnapshot(
        throttle.is_of_topic,
        balance.rate.messages,
        balance.rate.bytes,
        balance.messages,
        balance.bytes,
        balance.wait_seconds,
    )


def _key_waits(dispatcher: KeySharedDispatcher, now_s: float) -> list[KeyWait]:
    return [
        KeyWait(
            wait.slot,
            wait.entries,
            None if wait.owner is None else wait.owner.name,
            wait.owner is not None and wait.owner.can_take,
            None if wait.holder is None else wait.holder.name,
            wait.held,
            now_s - wait.since_s if wait.holder is not None else 0.0,
        )
        for wait in islice(dispatcher.order.waits(), KEY_WAITS_MAX)
    ]


def _hashes_without_consumer(dispatcher: KeySharedDispatcher) -> int:
    if not dispatcher.policy.is_sticky:
        return 0
    chosen = dispatcher.order.selector.ranges().values()
    return SLOTS - sum(last - first + 1 for ranges in chosen for first, last in ranges)


# --- the backlog ------------------------------------------------------------------------------------------------------


def _backlog(subscription: Subscription, dispatcher: Dispatcher | None) -> BacklogSnapshot:
    """Returns the backlog and its parts. Without consumers all of it waits to be read."""
    cursor = subscription.cursor
    first = cursor.next_unacked(cursor.mark_delete)
    waiting_from = first if dispatcher is None else dispatcher.read_position
    not_read = cursor.unacked_from(waiting_from)
    held = None if dispatcher is None else dispatcher.held
    if held is not None:
        not_read += cursor.unacked_among(*held)
    delivered = again = chunks = delayed = 0
    next_due_ms = None
    if isinstance(dispatcher, SharedDispatcher):
        again = _unacked_in(subscription, dispatcher.replay)
        if isinstance(dispatcher, KeySharedDispatcher):
            again += _unacked_in(subscription, dispatcher.due_entries)
        chunks = sum(_unacked_in(subscription, queue) for queue in dispatcher.chunks.waiting.values())
        delayed = dispatcher.delayed_messages
        next_due_ms = _next_due(subscription, dispatcher) if delayed else None
    elif isinstance(dispatcher, SingleActiveDispatcher):
        again = _unacked_in(subscription, dispatcher.holes_waiting)
    if dispatcher is not None:
        # Dispatchers see to it that every entry that is not acknowledged is with a consumer or in one of these places.
        delivered = max(0, cursor.backlog - not_read - again - chunks - delayed)
    return BacklogSnapshot(
        entries=cursor.backlog,
        size_bytes=cursor.backlog_size,
        delivered=delivered,
        delivered_messages=dispatcher.unacked_messages if isinstance(dispatcher, SharedDispatcher) else None,
        again=again,
        waiting_for_chunks=chunks,
        delayed=delayed,
        not_read=not_read,
        next_due_ms=next_due_ms,
        in_holes=cursor.entries_in_holes,
        holes=cursor.number_of_holes,
        mark_delete=cursor.mark_delete,
        read_position=waiting_from,
        first_unacked=first,
    )


def _unacked_in(subscription: Subscription, queue: ReplayQueue) -> int:
    return sum(subscription.cursor.unacked_among(ledger_id, entries) for ledger_id, entries in queue.by_ledger())


def _next_due(subscription: Subscription, dispatcher: SharedDispatcher) -> int | None:
    """Returns when the first delayed entry is due that the subscription passed over. Returns None when that entry is
    not among the first DUE_LOOKED_AT_MAX of the topic."""
    cursor, read_position = subscription.cursor, dispatcher.read_position
    for due_ms, ledger_id, entry_id in islice(subscription.topic.delayed.index.in_order(), DUE_LOOKED_AT_MAX):
        if (ledger_id, entry_id) < read_position and cursor.unacked_among(ledger_id, BitMap([entry_id])):
            return due_ms
    return None
