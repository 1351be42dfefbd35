"""The calls that move the subscriptions of a topic, and that skip and expire their messages.

Apache's calls create a subscription that does not exist; here they answer 404. Sources: PersistentTopicsBase
(internalResetCursorAsync, internalExpireMessagesForSinglePartition…); answers recorded from Pulsar 4.0.7."""

from typing import TYPE_CHECKING

from magnetar.server.admin import bodies
from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.call_paths import TOPIC
from magnetar.server.admin.over_partitions import over_partitions
from magnetar.server.admin.subscription_requests import (
    SUBSCRIPTION,
    message_id_of,
    number_of,
    refuse_partitioned,
    subscription_of,
    subscriptions_of,
    topics_of,
)
from magnetar.server.topics import backlog
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.outgoing_messages import ENTRY_MESSAGES_MAX
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from magnetar.storage.managed.ack_sets import words_of_mask
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import EARLIEST, LATEST, Position
from pulsar_proto.records.payload import parse_metadata

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription

SKIP_MAX = bodies.INT_MAX

EXPIRY_BACKLOG_MIN = 1_000
"""If a call finds no message that is old enough, it is refused when consumers are connected and the backlog has fewer
entries than this (MINIMUM_BACKLOG_FOR_EXPIRY_CHECK)."""

HINT = (
    "If it's performed on a partitioned topic operation might succeeded on other partitions, please check stats of "
    "individual partition."
)


async def skip(call: Call) -> Answer:
    await refuse_partitioned(call, "Skip messages on a partitioned topic is not allowed")
    await backlog.skip(await subscription_of(call), number_of(call, "count", SKIP_MAX))
    return NO_CONTENT


@over_partitions(rules.done)
async def skip_all(call: Call) -> Answer:
    for subscription in await subscriptions_of(call):
        await backlog.clear(subscription)
    return NO_CONTENT


@over_partitions(rules.done)
async def reset_to_time(call: Call) -> Answer:
    timestamp = number_of(call, "timestamp", bodies.LONG_MAX)
    for subscription in await subscriptions_of(call):
        await subscription.reset_to_time(timestamp)
    return NO_CONTENT


async def reset_to_position(call: Call) -> Answer:
    wanted = message_id_of(bodies.present(bodies.parse(call.body)))
    await refuse_partitioned(call, "Reset-cursor at position is not allowed for partitioned-topic")
    subscription = await subscription_of(call)
    position = wanted.position
    if position in (EARLIEST, LATEST):
        await subscription.reset(position)
        return NO_CONTENT
    size = await _batch_size(subscription, position) if wanted.batch_index >= 0 else 0
    first = (wanted.batch_index if size else 0) + wanted.is_excluded
    if first >= max(size, 1):
        await subscription.reset(Position(position.ledger_id, position.entry_id + 1))
    else:
        await subscription.reset(position, words_of_mask((1 << size) - (1 << first)) if first else ())
    return NO_CONTENT


async def _batch_size(subscription: "Subscription", position: Position) -> int:
    """Returns how many messages the batch at `position` has, or 0 if there is no batch, or more messages in it than an
    ack set may have bits. Raises PulsarError when the entry cannot be read."""
    found = await backlog.message_at(subscription.topic, position)
    if found is None:
        return 0
    try:
        metadata = parse_metadata(found.payload)
    except MalformedFrame:
        return 0
    size: int = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0
    return size if 0 < size <= ENTRY_MESSAGES_MAX else 0


@over_partitions(rules.done)
async def expire(call: Call) -> Answer:
    """Expires the messages of a subscription whose age is more than the number of seconds in the path. Raises Refusal
    409 when the subscription has no backlog, or when no message expires and EXPIRY_BACKLOG_MIN applies."""
    seconds = number_of(call, "seconds", bodies.INT_MAX)
    for subscription in await subscriptions_of(call):
        await _expire(subscription, seconds)
    return NO_CONTENT


@over_partitions(rules.done)
async def expire_all(call: Call) -> Answer:
    """Expires old messages in all subscriptions of the topic, by the rule of `expire`. If subscriptions were refused,
    raises the first of these refusals after the work on the last subscription."""
    seconds = number_of(call, "seconds", bodies.INT_MAX)
    refusal = None
    for held in await topics_of(call):
        for subscription in sorted(held.subscriptions.values(), key=lambda each: each.name):
            try:
                await _expire(subscription, seconds)
            except Refusal as error:
                refusal = refusal or error
    if refusal is not None:
        raise refusal
    return NO_CONTENT


async def _expire(subscription: "Subscription", seconds: int) -> None:
    waiting = subscription.cursor.backlog
    if waiting and seconds < 0:
        raise Refusal(400, f"seconds must be 0 or more, not {seconds}")
    expired = await backlog.expire_older(subscription, seconds, now_ms()) if waiting else 0
    nearly_caught_up = bool(subscription.consumers) and waiting < EXPIRY_BACKLOG_MIN and not expired
    if not waiting or nearly_caught_up:
        raise Refusal(
            409,
            f"Expire message by timestamp not issued on topic {subscription.topic.name.full} for subscription "
            f"{subscription.name} due to ongoing message expiration not finished or subscription almost catch  up. "
            + HINT,
        )


async def expire_to_position(call: Call) -> Answer:
    wanted = message_id_of(bodies.present(bodies.parse(call.body)))
    await refuse_partitioned(call, "Expire message at position is not supported for partitioned-topic")
    subscription = await subscription_of(call)
    if subscription.topic.ledger.is_after_last(wanted.position):
        raise Refusal(
            409,
            f"Expire message by position not issued on topic {subscription.topic.name.full} for subscription "
            f"{subscription.name} due to ongoing message expiration not finished or invalid message position "
            "provided.",
        )
    position = wanted.position
    if wanted.is_excluded:
        position = subscription.topic.ledger.previous_position(position)
    await backlog.expire_upto(subscription, position)
    return NO_CONTENT


ROUTES = (
    Route("POST", f"{SUBSCRIPTION}/skip/{{count}}", skip, topic("SKIP"), Place.TOPIC),
    Route("POST", f"{SUBSCRIPTION}/skip_all", skip_all, topic("SKIP"), Place.TOPIC_OR_PARTITIONS),
    Route(
        "POST",
        f"{SUBSCRIPTION}/resetcursor/{{timestamp}}",
        reset_to_time,
        topic("RESET_CURSOR"),
        Place.TOPIC_OR_PARTITIONS,
    ),
    Route("POST", f"{SUBSCRIPTION}/resetcursor", reset_to_position, topic("RESET_CURSOR"), Place.TOPIC),
    Route(
        "POST",
        f"{SUBSCRIPTION}/expireMessages/{{seconds}}",
        expire,
        topic("EXPIRE_MESSAGES"),
        Place.TOPIC_OR_PARTITIONS,
    ),
    Route("POST", f"{SUBSCRIPTION}/expireMessages", expire_to_position, topic("EXPIRE_MESSAGES"), Place.TOPIC),
    Route(
        "POST",
        f"{TOPIC}/all_subscription/expireMessages/{{seconds}}",
        expire_all,
        topic("EXPIRE_MESSAGES"),
        Place.TOPIC_OR_PARTITIONS,
    ),
)
