"""Tells one message's story: which bookies hold it, and what each subscription has done with it.

Only what is so now can be told: the log does not record when a message was given to a consumer or acknowledged.
"""

from collections.abc import Sequence
from typing import Any

from magnetar.server.process.turns import in_portions
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.managed.ack_sets import mask_of_words
from pulsar_proto.counted import counted
from pulsar_proto.ids import Position
from pulsar_proto.records.ledger_record import LedgerMetadata

Json = dict[str, Any]

NOT_RECORDED = "When a message was given to a consumer, and when it was acknowledged, is not stored."
SUBSCRIPTIONS_MAX = 1_000
"""How many subscriptions one answer tells about."""


def where(metadata: LedgerMetadata, entry_id: int, size: int) -> Json:
    """Returns which bookies hold an entry of the ledger; `size` is the entry's payload in bytes."""
    bookies: tuple[str, ...] = ()
    for first, ensemble in metadata.ensembles:
        if first <= entry_id:
            bookies = tuple(ensemble)
    holders = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum) if bookies else ()
    return {
        "ledgerState": metadata.state.name,
        "ensemble": list(bookies),
        "writeSet": [bookies[index] for index in holders],
        "ackQuorum": metadata.ack_quorum,
        "size": size,
    }


async def subscriptions_of(topic: Topic, position: Position, batch_index: int, deliver_at_ms: int) -> list[Json]:
    """Returns what each subscription has done with a message; `batch_index` is -1 for a whole entry."""
    told: list[Json] = []
    async for subscription in in_portions(list(topic.subscriptions.values())[:SUBSCRIPTIONS_MAX]):
        state = _state(topic, subscription, position, batch_index, deliver_at_ms)
        told.append({"name": subscription.name, "type": subscription.type_name, **state})
    return told


def _state(topic: Topic, subscription: Subscription, position: Position, batch_index: int, deliver_at_ms: int) -> Json:
    cursor = subscription.cursor
    if cursor.is_acked(*position):
        return _told("acknowledged", "It was acknowledged, or skipped by an administrator, a seek, or its expiry.")
    if batch_index >= 0 and _is_acked_in_batch(cursor.ack_set_of(*position), batch_index):
        return _told("acknowledged", "It was acknowledged; other messages of its batch were not.")
    dispatcher = subscription.dispatcher if subscription.consumers else None
    if dispatcher is None:
        return _told("waiting", "It waits: the subscription has no consumer.")
    if isinstance(dispatcher, SharedDispatcher):
        return _of_shared(topic, dispatcher, position, deliver_at_ms)
    return _of_single_active(subscription, dispatcher, position)


def _of_shared(topic: Topic, dispatcher: SharedDispatcher, position: Position, deliver_at_ms: int) -> Json:
    holder = dispatcher.holder_of(*position)
    counts = dispatcher.redelivery_counts.of_ledger(position.ledger_id) or {}
    again = counts.get(position.entry_id, 0)
    if holder is not None:
        return _held(holder, again)
    if dispatcher.replay.contains(*position):
        return {**_told("redelivery", "It is about to be sent again."), "redeliveryCount": again}
    if topic.delayed.index.has(*position) and position < dispatcher.read_position:
        text = "It is delayed: its producer asked for a later delivery."
        return {**_told("delayed", text), **({"deliverAt": deliver_at_ms} if deliver_at_ms else {})}
    if any(queue.contains(*position) for queue in dispatcher.chunks.waiting.values()):
        return _told("waiting", "It is a chunk that waits for the consumer which has the other chunks of its message.")
    return _not_sent(dispatcher, position)


def _of_single_active(subscription: Subscription, dispatcher: Dispatcher, position: Position) -> Json:
    active = subscription.active_consumer
    is_sent = position < dispatcher.waiting_from
    if isinstance(dispatcher, SingleActiveDispatcher) and dispatcher.holes_waiting.contains(*position):
        return _told("redelivery", "It is about to be sent again.")
    if active is not None and is_sent:
        return _held(active, 0)
    return _not_sent(dispatcher, position)


def _not_sent(dispatcher: Dispatcher, position: Position) -> Json:
    before = dispatcher.cursor.unacked_from(dispatcher.waiting_from) - dispatcher.cursor.unacked_from(position)
    come = counted(before, "entry comes", "entries come")
    return {
        **_told("waiting", f"It was not sent yet: {come} before it ({dispatcher.why_idle()})."),
        "entriesBefore": before,
    }


def _held(consumer: Consumer, again: int) -> Json:
    times = f" Consumers gave it back {counted(again, 'time')} before." if again else ""
    return {
        **_told("held", f"It was sent to the consumer {consumer.name} and is not acknowledged.{times}"),
        "consumer": consumer.name,
        "client": consumer.cnx.remote_address,
        "redeliveryCount": again,
    }


def _is_acked_in_batch(ack_set: Sequence[int] | None, batch_index: int) -> bool:
    return ack_set is not None and not mask_of_words(ack_set) >> batch_index & 1


def _told(state: str, sentence: str) -> Json:
    return {"state": state, "sentence": sentence}
