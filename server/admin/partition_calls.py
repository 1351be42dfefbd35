"""Creating, reading, growing and deleting partitioned topics. Source: PersistentTopicsBase
(internalCreatePartitionedTopic, internalUpdatePartitionedTopicAsync, internalDeletePartitionedTopic); answers recorded
from Pulsar 4.0.7."""

from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.shadow_topic_calls import check_no_shadow
from magnetar.server.admin.topic_calls import check_amount, check_new
from magnetar.server.topics.broker_service import TopicBusy
from magnetar.server.topics.partitioned_deletion import delete_partitioned
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import namespace, topic
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import EARLIEST
from pulsar_proto.names import TopicName


async def get(call: Call) -> Answer:
    """Answers with the number of partitions, 0 for a topic that is not partitioned. A missing topic is refused, unless
    the parameter `checkAllowAutoCreation` asks to create it."""
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
    """Creates a partitioned topic. The body is the number of partitions, or an object with that and properties."""
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
    await service.catalog.check_room(name, count - record.partitions)
    await _copy_subscriptions(call, name, record.partitions, count)
    await service.catalog.create_missing_partitions(name, count)
    if await service.catalog.partitioned.update(name, partitions=count) is None:
        raise TopicNotFound(f"Topic {name.full} not found")
    return NO_CONTENT


async def _copy_subscriptions(call: Call, name: TopicName, old: int, new: int) -> None:
    """Creates the topic's durable subscriptions in the new partitions. This is done before clients know of these, so
    that no subscription misses what is published there."""
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


async def create_missing(call: Call) -> Answer:
    name, catalog = topic_of(call), call.broker.service.catalog
    await catalog.check_namespace(name.namespace)
    record = await catalog.partitioned.get(name)
    if record is None:
        raise Refusal(404, f"Topic {name.full} does not exist")
    await catalog.create_missing_partitions(name, record.partitions)
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    """Deletes a topic with all its partitions. Raises Refusal 412 when it has clients and the parameter `force` is not
    set, 409 for a topic that is not partitioned, 404 for a missing one."""
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
        await delete_partitioned(service, name, call.flag("force"))
    except TopicBusy as busy:
        raise Refusal(412, str(busy)) from None
    return NO_CONTENT


ROUTES = (
    Route("GET", f"{TOPIC}/partitions", get, topic("LOOKUP"), is_urgent=True),
    Route("PUT", f"{TOPIC}/partitions", create, namespace("CREATE_TOPIC")),
    Route("POST", f"{TOPIC}/partitions", grow, namespace("CREATE_TOPIC")),
    Route("DELETE", f"{TOPIC}/partitions", delete, namespace("DELETE_TOPIC")),
    Route("POST", f"{TOPIC}/createMissedPartitions", create_missing, namespace("CREATE_TOPIC")),
)
