"""The calls that create, delete and move the subscriptions of a topic, and that skip and expire their messages.

The subscriptions of a partitioned topic are those of its partitions. Apache's calls that skip, reset and expire create
a subscription that does not exist; here these calls answer 404. Sources: PersistentTopicsBase
(internalCreateSubscription, internalDeleteSubscriptionAsync, internalResetCursorAsync,
internalExpireMessagesForSinglePartition…); answers recorded from Pulsar 4.0.7."""

from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.server.admin import bodies
from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_partitions import all_here, at_partitions, over_partitions
from magnetar.server.admin.topic_calls import (
    check_amount,
    check_local_cluster,
    loaded,
    loaded_of_any_domain,
    partitions_of,
)
from magnetar.server.process.turns import in_portions
from magnetar.server.topics import backlog
from magnetar.server.topics.counters import now_ms
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.ids import EARLIEST, LATEST, Position
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription
    from magnetar.server.topics.topic import Topic

REPLICATED = "pulsar.replicated.subscription"
"""The property of a cursor's position that is 1 when the subscription is to be replicated. This broker stores the
property, but replicates nothing."""

SKIP_MAX = bodies.INT_MAX

EXPIRY_BACKLOG_MIN = 1_000
"""If a call finds no message that is old enough, it is refused when consumers are connected and the backlog has fewer
entries than this (MINIMUM_BACKLOG_FOR_EXPIRY_CHECK)."""

HINT = (
    "If it's performed on a partitioned topic operation might succeeded on other partitions, please check stats of "
    "individual partition."
)


class MessageId(NamedTuple):
    """The message that a body names, as Java's MessageIdImpl or ResetCursorData."""

    position: Position
    properties: dict[str, str]
    is_excluded: bool = False
    batch_index: int = -1


async def topics_of(call: Call) -> "list[Topic]":
    """Loads the call's topic, or all partitions of the topic. Raises TopicNotFound when it does not exist."""
    name = topic_of(call)
    count = await partitions_of(call, name)
    if not count:
        return [await loaded(call)]
    service = call.broker.service
    return [await service.get_topic(name.partition(index), create=True) async for index in in_portions(range(count))]


async def subscription_of(call: Call) -> "Subscription":
    """Returns the call's subscription of a topic. Raises TopicNotFound, and Refusal 404 when the subscription does not
    exist."""
    return _named(await loaded(call), call.parts["subscription"])


async def subscriptions_of(call: Call) -> "list[Subscription]":
    """Returns the call's subscription of a topic, or of each of its partitions. Raises TopicNotFound, and Refusal 404
    when a subscription does not exist."""
    return [_named(each, call.parts["subscription"]) for each in await topics_of(call)]


def _named(held: "Topic", name: str) -> "Subscription":
    subscription = held.subscriptions.get(name)
    if subscription is None:
        raise Refusal(404, f"Subscription {name} not found for topic {held.name.full}")
    return subscription


async def refuse_partitioned(call: Call, reason: str) -> None:
    """Raises Refusal 405 with the reason when the call's topic is partitioned, and TopicNotFound when its namespace
    does not exist."""
    if await partitions_of(call, topic_of(call)):
        raise Refusal(405, reason)


# --- listing, creating, deleting --------------------------------------------------------------------------------------


@over_partitions(rules.listed)
async def list_all(call: Call) -> Answer:
    if not topic_of(call).is_persistent:
        return sorted((await loaded_of_any_domain(call)).subscriptions)
    names: dict[str, None] = {}
    for each in await topics_of(call):
        names |= dict.fromkeys(each.subscriptions)
    return sorted(names)


async def create(call: Call) -> Answer:
    """Creates a subscription at the position that the body names, or at the end of the topic. A missing topic is
    created if the policies allow it."""
    name, service, subscription = topic_of(call), call.broker.service, call.parts["subscription"]
    wanted = message_id_of(bodies.parse(call.body))
    check_amount("subscription", wanted.properties)
    await service.catalog.check_namespace(name.namespace)
    await check_local_cluster(call, name)
    if not name.is_persistent:
        raise Refusal(400, "Create subscription on non-persistent topic can only be done through client")
    count = await service.catalog.partitions_of(name, may_create=True)
    if not all_here(call, name, count):
        return rules.made(await at_partitions(call, name, range(count), create))
    held = []
    for each in _parts(name, count):
        may_create = await service.catalog.topic_exists(each) or await service.catalog.may_create(each)
        held.append(await service.get_topic(each, create=may_create))
    if all(subscription in one.subscriptions for one in held):
        raise Refusal(409, "Subscription already exists for topic")
    for one in held:
        await _create(one, subscription, wanted, call.flag("replicated"))
    return NO_CONTENT


def _parts(name: TopicName, count: int) -> list[TopicName]:
    return [name.partition(index) for index in range(count)] or [name]


async def _create(held: "Topic", name: str, wanted: MessageId, replicated: bool) -> None:
    if name in held.subscriptions:
        return
    ends = wanted.position in (EARLIEST, LATEST)
    made = await held.create_subscription(name, wanted.position if ends else LATEST, wanted.properties)
    if not ends:
        await made.reset(wanted.position)
    if replicated:
        made.cursor.put_position_property(REPLICATED, 1)


@over_partitions(rules.gone)
async def delete(call: Call) -> Answer:
    """Deletes a subscription. With the parameter `force`, the subscription's consumers are disconnected before; without
    `force`, raises Refusal 412 when the subscription has consumers."""
    force = call.flag("force")
    if not topic_of(call).is_persistent:
        return await _delete_non_persistent(call, force)
    held = await topics_of(call)
    name = call.parts["subscription"]
    found = [each.subscriptions[name] for each in held if name in each.subscriptions]
    if not found:
        if topic_of(call).full != held[0].name.full:
            raise Refusal(404, "Subscription not found")
        _named(held[0], name)
    for subscription in found:
        if subscription.consumers and not force:
            raise Refusal(412, "Subscription has active connected consumers")
    for subscription in found:
        await subscription.delete()
    return NO_CONTENT


async def _delete_non_persistent(call: Call, force: bool) -> Answer:
    """Disconnects the consumers of a non-persistent subscription, which ends with its last consumer. Raises Refusal 404
    when there is no such subscription, and 412 when the subscription has consumers and `force` is not set."""
    name, held = call.parts["subscription"], await loaded_of_any_domain(call)
    subscription = held.subscriptions.get(name)
    if subscription is None:
        raise Refusal(404, f"Subscription {name} not found for topic {held.name.full}")
    if subscription.consumers and not force:
        raise Refusal(412, "Subscription has active connected consumers")
    for consumer in list(subscription.consumers):
        consumer.cnx.close_consumer(consumer.consumer_id)
        consumer.close()
    return NO_CONTENT


@over_partitions(rules.merged)
async def properties(call: Call) -> Answer:
    merged: dict[str, str] = {}
    for subscription in await subscriptions_of(call):
        merged |= subscription.cursor.properties
    return merged


@over_partitions(rules.done)
async def set_properties(call: Call) -> Answer:
    """Replaces the properties of a subscription."""
    body = bodies.parse(call.body)
    given = {} if body is bodies.ABSENT or body is None else bodies.string_map(body)
    check_amount("subscription", given)
    for subscription in await subscriptions_of(call):
        await subscription.cursor.set_properties(given)
    return NO_CONTENT


@over_partitions(rules.merged)
async def replicated(call: Call) -> Answer:
    return {each.topic.name.full: _is_replicated(each) for each in await subscriptions_of(call)}


@over_partitions(rules.done)
async def set_replicated(call: Call) -> Answer:
    wanted = bodies.boolean(bodies.present(bodies.parse(call.body)))
    for subscription in await subscriptions_of(call):
        subscription.cursor.put_position_property(REPLICATED, 1 if wanted else None)
    return NO_CONTENT


def _is_replicated(subscription: "Subscription") -> bool:
    return subscription.cursor.position_properties.get(REPLICATED) == 1


# --- moving -----------------------------------------------------------------------------------------------------------


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
    if wanted.is_excluded and position not in (EARLIEST, LATEST):
        position = Position(position.ledger_id, position.entry_id + 1)
    await subscription.reset(position)
    return NO_CONTENT


# --- expiring ---------------------------------------------------------------------------------------------------------


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


# --- reading requests -------------------------------------------------------------------------------------------------


def number_of(call: Call, part: str, most: int) -> int:
    """Returns the number in a variable segment of the path. Raises Refusal 400."""
    return bodies.integer(call.parts[part], most, part)


def message_id_of(body: Any) -> MessageId:
    """Returns the message that a parsed body names: by an object, "earliest" or "latest". An empty body counts as
    "latest". Raises Refusal 400."""
    if body is bodies.ABSENT or body is None or body == "latest":
        return MessageId(LATEST, {})
    if body == "earliest":
        return MessageId(EARLIEST, {})
    given = bodies.obj(body)
    if "ledgerId" not in given and "entryId" not in given:
        return MessageId(LATEST, _properties(given))
    ledger_id = bodies.integer(given.get("ledgerId"), bodies.LONG_MAX, "ledgerId")
    entry_id = bodies.integer(given.get("entryId"), bodies.LONG_MAX, "entryId")
    position = Position(ledger_id, entry_id)
    if ledger_id == LATEST.ledger_id:
        position = LATEST
    elif ledger_id < 0:
        position = EARLIEST
    index = bodies.integer(-1 if given.get("batchIndex") is None else given["batchIndex"], what="batchIndex")
    excluded = bodies.boolean(given.get("isExcluded", given.get("excluded")), "isExcluded")
    return MessageId(position, _properties(given), excluded, index)


def _properties(given: dict[str, Any]) -> dict[str, str]:
    return {} if given.get("properties") is None else bodies.string_map(given["properties"], "properties")


SUBSCRIPTIONS = f"{TOPIC}/subscription"
SUBSCRIPTION = f"{SUBSCRIPTIONS}/{{subscription}}"

ROUTES = (
    Route("GET", f"{TOPIC}/subscriptions", list_all, topic("GET_SUBSCRIPTIONS"), Place.TOPIC_OR_PARTITIONS),
    Route("PUT", SUBSCRIPTION, create, topic("SUBSCRIBE"), Place.TOPIC_OR_PARTITIONS),
    Route("DELETE", SUBSCRIPTION, delete, topic("UNSUBSCRIBE"), Place.TOPIC_OR_PARTITIONS),
    Route("GET", f"{SUBSCRIPTION}/properties", properties, topic("CONSUME"), Place.TOPIC_OR_PARTITIONS),
    Route("PUT", f"{SUBSCRIPTION}/properties", set_properties, topic("CONSUME"), Place.TOPIC_OR_PARTITIONS),
    Route(
        "GET",
        f"{SUBSCRIPTION}/replicatedSubscriptionStatus",
        replicated,
        topic("GET_REPLICATED_SUBSCRIPTION_STATUS"),
        Place.TOPIC_OR_PARTITIONS,
    ),
    Route(
        "POST",
        f"{SUBSCRIPTION}/replicatedSubscriptionStatus",
        set_replicated,
        topic("SET_REPLICATED_SUBSCRIPTION_STATUS"),
        Place.TOPIC_OR_PARTITIONS,
    ),
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
