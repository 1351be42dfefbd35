"""The calls that list, create and delete the subscriptions of a topic, and that change their properties.

The subscriptions of a partitioned topic are those of its partitions. Sources: PersistentTopicsBase
(internalCreateSubscription, internalDeleteSubscriptionAsync…); answers recorded from Pulsar 4.0.7."""

from typing import TYPE_CHECKING

from magnetar.server.admin import bodies
from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_partitions import all_here, at_partitions, over_partitions
from magnetar.server.admin.subscription_requests import (
    SUBSCRIPTION,
    MessageId,
    message_id_of,
    named,
    subscriptions_of,
    topics_of,
)
from magnetar.server.admin.topic_calls import check_amount, check_local_cluster, loaded_of_any_domain
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place
from pulsar_proto.ids import EARLIEST, LATEST
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription
    from magnetar.server.topics.topic import Topic

REPLICATED = "pulsar.replicated.subscription"
"""The property of a cursor's position that is 1 when the subscription is to be replicated. This broker stores the
property, but replicates nothing."""


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
        named(held[0], name)
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
)
