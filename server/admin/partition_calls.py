"""The calls that create, read, grow and delete partitioned topics. Source: PersistentTopicsBase
(internalCreatePartitionedTopic, internalUpdatePartitionedTopicAsync, internalDeletePartitionedTopic); answers recorded
from Pulsar 4.0.7."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from magnetar.metadata.cluster_init import to_json
from magnetar.server.admin import bodies
from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_partitions import all_here, at_partitions
from magnetar.server.admin.shadow_topic_calls import check_no_shadow
from magnetar.server.admin.subscription_calls import create as create_subscription
from magnetar.server.admin.topic_calls import check_amount, check_new
from magnetar.server.admin.topic_deletion import delete_anywhere
from magnetar.server.admin.topic_stats_calls import stats
from magnetar.server.topics.partitioned_deletion import delete_partitioned
from magnetar.server.topics.topic_deletion import TopicBusy
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import namespace, topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import EARLIEST
from pulsar_proto.names import TopicName

UNHEARD_ATTEMPTS_MAX = 20
UNHEARD_PAUSE_SECONDS = 0.25
"""How many times a call on a new partition is made while the partition's owner has not heard of the partition yet, and
the pause between two of these calls."""


async def get(call: Call) -> Answer:
    """Answers with the number of partitions, which is 0 for a topic that is not partitioned. A missing topic is
    refused, unless the parameter `checkAllowAutoCreation` asks to create it."""
    name, catalog = topic_of(call), call.broker.service.catalog
    may_create = call.flag("checkAllowAutoCreation")
    count = await catalog.partitions_of(name, may_create=may_create)
    answer: dict[str, Any] = {"partitions": count, "deleted": False}
    record = await catalog.partitioned.get(name)
    if record is not None:
        answer["deleted"] = record.deleted
        if record.properties is not None and not may_create:
            answer["properties"] = dict(record.properties)
    return answer


async def create(call: Call) -> Answer:
    """Creates a partitioned topic. The body is the number of partitions, or an object with the number and
    properties."""
    name, service = topic_of(call), call.broker.service
    body = bodies.present(bodies.parse(call.body))
    properties = None
    if isinstance(body, dict) and "partitions" in body:
        if body.get("properties") is not None:
            properties = bodies.string_map(body["properties"], "properties")
        body = body["partitions"]
    count = bodies.integer(body)
    if name.is_partition:
        raise Refusal(412, "Partitioned Topic Name should not contain '-partition-'")
    check_amount("topic", properties or {})
    check_no_shadow(properties or {})
    _check_count(call, count)
    await check_new(call, name)
    async with service.catalog.creating(name):
        await service.catalog.check_room(name, count)
        if not await service.catalog.create_partitioned(name, count, properties):
            raise Refusal(409, "This topic already exists")
    return NO_CONTENT


def _check_count(call: Call, count: int) -> None:
    if count <= 0:
        raise Refusal(406, "Number of partitions should be more than 0")
    most = call.broker.service.settings.max_num_partitions_per_partitioned_topic
    if 0 < most < count:
        raise Refusal(406, f"Number of partitions should be less than or equal to {most}")


async def grow(call: Call) -> Answer:
    """Adds partitions to a topic. The new partitions get the subscriptions that the existing ones have."""
    name, service = topic_of(call), call.broker.service
    count = bodies.integer(bodies.present(bodies.parse(call.body)))
    await service.catalog.check_namespace(name.namespace)
    record = await service.catalog.partitioned.get(name)
    if record is None:
        raise Refusal(409, f"Topic {name.full} is not the partitioned topic.")
    if count < record.partitions:
        raise Refusal(422, f"Desired partitions {count} can't be less than the current partitions {record.partitions}.")
    _check_count(call, count)
    async with service.catalog.creating(name):
        await service.catalog.check_room(name, count - record.partitions)
        await service.catalog.create_missing_partitions(name, count)
    is_here = all_here(call, name, count)
    if is_here:
        await _copy_subscriptions(call, name, record.partitions, count)
    if await service.catalog.partitioned.update(name, partitions=count) is None:
        raise TopicNotFound(f"Topic {name.full} not found")
    if not is_here and name.is_persistent:
        await _copy_by_owners(call, name, range(record.partitions, count))
    return NO_CONTENT


async def _copy_subscriptions(call: Call, name: TopicName, old: int, new: int) -> None:
    """Creates the topic's durable subscriptions in the new partitions. The caller does this before clients
    learn of the new partitions, so that no subscription misses a message that is published to them."""
    service = call.broker.service
    if not name.is_persistent:
        return
    first = await service.get_topic(name.partition(0), create=True)
    durable = {each.name: dict(each.cursor.properties) for each in first.subscriptions.values() if each.cursor.durable}
    if not durable:
        return
    for index in range(old, new):
        partition = await service.get_topic(name.partition(index), create=True)
        for subscription, properties in durable.items():
            await partition.create_subscription(subscription, EARLIEST, properties)


async def _copy_by_owners(call: Call, name: TopicName, new: Sequence[int]) -> None:
    """Creates the topic's durable subscriptions in the new partitions, as `_copy_subscriptions` does, but at the owners
    of the partitions. The caller does this after the topic's record has changed, because an owner that is an Apache
    broker refuses a partition that is not in the record yet. Clients may have learned of the partitions by then, so
    each subscription begins at the partition's first message."""
    [first] = rules.values(await at_partitions(call, name, [0], stats, method="GET", tail="stats", body=b""))
    for subscription, held in first["subscriptions"].items():
        if held.get("isDurable", True):
            await _make_subscription(call, name, new, subscription, held.get("subscriptionProperties") or {})


async def _make_subscription(
    call: Call, name: TopicName, partitions: Sequence[int], subscription: str, properties: Mapping[str, str]
) -> None:
    """Creates a subscription in these partitions. An owner that has not heard of its partition yet is asked again, up
    to UNHEARD_ATTEMPTS_MAX times. Raises the Refusal of an owner that refuses for another reason, or that refuses the
    last attempt, too."""
    body = {"ledgerId": EARLIEST.ledger_id, "entryId": EARLIEST.entry_id, "properties": properties}
    for attempt in range(UNHEARD_ATTEMPTS_MAX):
        made = await at_partitions(
            call,
            name,
            partitions,
            partial(_create_subscription, subscription),
            method="PUT",
            tail=f"subscription/{quote(subscription, safe='')}",
            body=to_json(body),
        )
        refused = [each for each in made if each.refusal is not None and not _is_there(each.refusal)]
        if not refused:
            return
        refusal = refused[0].refusal
        assert refusal is not None
        if refusal.status != rules.CONFLICT or attempt == UNHEARD_ATTEMPTS_MAX - 1:
            raise refusal
        partitions = [each.partition for each in refused]
        await asyncio.sleep(UNHEARD_PAUSE_SECONDS)


def _is_there(refusal: Refusal) -> bool:
    """Returns whether a subscription was refused because it exists already. The text decides, because Apache's broker
    also answers 409 when it has not heard of the partition ("Illegal topic partition name")."""
    return refusal.status == rules.CONFLICT and "already exists" in refusal.reason


async def _create_subscription(subscription: str, call: Call) -> Answer:
    call.parts = {**call.parts, "subscription": subscription}
    return await create_subscription(call)


async def create_missing(call: Call) -> Answer:
    name, catalog = topic_of(call), call.broker.service.catalog
    await catalog.check_namespace(name.namespace)
    record = await catalog.partitioned.get(name)
    if record is None:
        raise Refusal(404, f"Topic {name.full} does not exist")
    await catalog.create_missing_partitions(name, record.partitions)
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    """Deletes a topic with all its partitions. Raises Refusal 412 when the topic has clients and the parameter `force`
    is not set, 409 when the topic is not partitioned, and 404 when it does not exist."""
    name, service = topic_of(call), call.broker.service
    if await service.catalog.partitioned.get(name) is None:
        if await service.catalog.topic_exists(name):
            raise Refusal(
                409,
                f"{name.full} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call "
                "delete.",
            )
        raise Refusal(404, f"Topic {name.full} not found.")
    try:
        await delete_partitioned(service, name, call.flag("force"), partial(delete_anywhere, call.broker))
    except TopicBusy as busy:
        raise Refusal(412, str(busy)) from None
    return NO_CONTENT


ROUTES = (
    Route("GET", f"{TOPIC}/partitions", get, topic("LOOKUP"), Place.ANY_BROKER, is_urgent=True),
    Route("PUT", f"{TOPIC}/partitions", create, namespace("CREATE_TOPIC"), Place.ANY_BROKER),
    Route("POST", f"{TOPIC}/partitions", grow, namespace("CREATE_TOPIC"), Place.ANY_BROKER),
    Route("DELETE", f"{TOPIC}/partitions", delete, namespace("DELETE_TOPIC"), Place.TOPIC_OR_PARTITIONS),
    Route("POST", f"{TOPIC}/createMissedPartitions", create_missing, namespace("CREATE_TOPIC"), Place.ANY_BROKER),
)
