"""The calls that create, delete, unload, terminate and trim topics, and the calls on their properties.

Sources: PersistentTopics, NonPersistentTopics, PersistentTopicsBase; answers recorded from Pulsar 4.0.7.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.server.admin import bodies
from magnetar.server.admin import partition_outcome_rules as rules
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.over_partitions import all_here, at_partitions, over_partitions
from magnetar.server.admin.shadow_topic_calls import check_no_shadow
from magnetar.server.topics import backlog
from magnetar.server.topics.properties_rules import fault_of_properties
from magnetar.server.topics.topic_deletion import TopicBusy
from magnetar.server.transactions.coordinators import ASSIGN_TOPIC
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import namespace, topic
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic, is_transaction_internal

if TYPE_CHECKING:
    from magnetar.server.topics.base_topic import BaseTopic
    from magnetar.server.topics.topic import Topic

OWN_PROPERTIES = ("pulsar.topic.epoch", "index", "max_local_txn_id")
"""The names of the properties that the server itself stores beside the user's properties."""

EXISTS = "This topic already exists"


async def loaded(call: Call) -> "Topic":
    """Loads the call's persistent topic and returns it. Raises TopicNotFound when the topic does not exist."""
    name, service = topic_of(call), call.broker.service
    await service.catalog.check_namespace(name.namespace)
    if name.is_partition and name.full not in service.topics:
        record = await service.catalog.partitioned.get(name.base)
        if record is not None and name.partition_index >= record.partitions:
            raise TopicNotFound("Topic partitions were not yet created")
    return await service.get_topic(name, create=False)


async def loaded_of_any_domain(call: Call) -> "BaseTopic":
    """Loads the call's topic, of either domain, and returns it. Raises TopicNotFound when it does not exist."""
    name = topic_of(call)
    if name.is_persistent:
        return await loaded(call)
    await call.broker.service.catalog.check_namespace(name.namespace)
    return await call.broker.service.get_any(name, create=False)


async def partitions_of(call: Call, name: TopicName) -> int:
    """Returns the number of a topic's partitions, or 0 when the topic is not partitioned or does not exist. Raises
    TopicNotFound when the namespace does not exist."""
    await call.broker.service.catalog.check_namespace(name.namespace)
    record = await call.broker.service.catalog.partitioned.get(name)
    return 0 if record is None else record.partitions


async def check_local_cluster(call: Call, name: TopicName) -> None:
    """Raises Refusal 412 when the topic's namespace is not replicated to this cluster, and so must not be used here."""
    record = await call.broker.service.policies.namespaces.get(name.namespace)
    clusters = (record or {}).get("replication_clusters")
    if clusters and call.broker.cluster not in clusters:
        raise Refusal(
            412,
            f"Namespace missing local cluster name in clusters list: local_cluster={call.broker.cluster} "
            f"ns={name.namespace} clusters=[{', '.join(clusters)}]",
        )


async def check_new(call: Call, name: TopicName) -> None:
    """Checks that a topic can be created. Raises TopicNotFound when the topic's namespace does not exist, Refusal
    400 when the name belongs to the logs of transactions, Refusal 409 when the topic exists already, and Refusal 412
    when the namespace must not be used in this cluster."""
    catalog = call.broker.service.catalog
    await catalog.check_namespace(name.namespace)
    await check_local_cluster(call, name)
    if is_transaction_internal(name):  # AdminResource.validateCreateTopic
        raise Refusal(400, "Cannot create topic in system topic format!")
    if await catalog.partitioned.get(name) is not None or await catalog.topic_exists(name):
        raise Refusal(409, EXISTS)


async def create(call: Call) -> Answer:
    """Creates a topic that is not partitioned, or a partition. The body may hold properties."""
    name, service = topic_of(call), call.broker.service
    body = bodies.parse(call.body)
    properties = {} if body is bodies.ABSENT or body is None else bodies.string_map(body)
    _check_properties(properties)
    check_no_shadow(properties)
    await check_new(call, name)
    if name.is_partition:
        record = await service.catalog.partitioned.get(name.base)
        if record is None or name.partition_index >= record.partitions:
            raise Refusal(
                412,
                f"Can't create topic {name.local_name} with \"-partition-\" followed by numeric value if there isn't a "
                f"partitioned topic {name.base.local_name} created.",
            )
    if not name.is_persistent:
        await service.get_any(name, create=True)
        return NO_CONTENT
    made = await service.get_topic(name, create=True)
    if properties:
        await made.ledger.set_properties(properties)
        await service.refresh_policies(made)
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    """Deletes a topic. Raises Refusal 409 for a partitioned topic. Without the parameter `force`, raises Refusal 412
    for a topic with clients and for a system topic. A non-persistent topic that is not loaded does not exist, but
    deleting such a topic succeeds."""
    name, service, force = topic_of(call), call.broker.service, call.flag("force")
    if await service.catalog.partitioned.get(name) is not None:
        raise Refusal(
            409,
            f"{name.full} is a partitioned topic, instead of calling delete topic, please call "
            "delete-partitioned-topic.",
        )
    if not await service.catalog.topic_exists(name):
        if not name.is_persistent:
            return NO_CONTENT
        raise TopicNotFound(f"Topic {name.full} not found")
    if is_system_topic(name) and not force:
        raise Refusal(412, "A topic of the system is deleted only by force")
    try:
        await service.delete_topic(name, force)
    except TopicBusy as busy:
        raise Refusal(412, str(busy)) from None
    return NO_CONTENT


@over_partitions(rules.gone)
async def unload(call: Call) -> Answer:
    """Unloads a topic, or all loaded partitions of a partitioned topic. For a partition that stands for a transaction
    coordinator, closes the coordinator and loads it again."""
    name, service = topic_of(call), call.broker.service
    count = await partitions_of(call, name)
    if name.base == ASSIGN_TOPIC and call.broker.transactions is not None:
        for index in range(count) if count else (name.partition_index,):
            await call.broker.transactions.reload(index)
        return NO_CONTENT
    if count == 0 and not await service.catalog.topic_exists(name):
        raise TopicNotFound(f"Topic {name.full} not found")
    for each in [name.partition(index) for index in range(count)] or [name]:
        known = service.loaded(each)
        if known is not None:
            await service.unload(known)
    return NO_CONTENT


async def terminate(call: Call) -> Answer:
    """Terminates a topic and answers with the id of its last message."""
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(406, "Need to provide a persistent topic name")
    if is_system_topic(name):
        raise Refusal(405, "Termination of a system topic is not allowed")
    if await partitions_of(call, name):
        raise Refusal(405, "Termination of a partitioned topic is not allowed")
    return message_id(await (await loaded(call)).terminate())


async def terminate_partitions(call: Call) -> Answer:
    name = topic_of(call)
    count = await partitions_of(call, name)
    if not count:
        raise Refusal(
            405,
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use terminate "
            "commands",
        )
    if not all_here(call, name, count):
        return rules.by_index(await at_partitions(call, name, range(count), terminate, tail="terminate"))
    ended = {}
    for index in range(count):
        partition = await call.broker.service.get_topic(name.partition(index), create=True)
        ended[str(index)] = message_id(await partition.terminate())
    return ended


@over_partitions(rules.shown)
async def trim(call: Call) -> Answer:
    """Deletes immediately the ledgers that are no longer needed, instead of waiting for the next periodic trim."""
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(405, "Trim on a non-persistent topic is not allowed")
    count = await partitions_of(call, name)
    if not count:
        await (await loaded(call)).ledger.maintain()
    for index in range(count):
        partition = await call.broker.service.get_topic(name.partition(index), create=True)
        await partition.ledger.maintain()
    return EMPTY


@over_partitions(rules.done)
async def truncate(call: Call) -> Answer:
    """Deletes all messages, even if subscriptions have not acknowledged them or retention keeps them."""
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(412, "unsupport truncate")
    count = await partitions_of(call, name)
    parts = [name.partition(index) for index in range(count)]
    held = [await call.broker.service.get_topic(part, create=True) for part in parts]
    for each in held or [await loaded(call)]:
        for subscription in list(each.subscriptions.values()):
            await backlog.clear(subscription)
        await _delete_messages(each)
    return NO_CONTENT


async def _delete_messages(held: "Topic") -> None:
    """Begins a new ledger, unless the topic is terminated, and deletes all earlier ledgers. To delete them, this
    function sets the retention to zero, trims, and restores the retention. Raises ManagedLedgerError."""
    kept = held.ledger.config
    await held.ledger.roll()
    if held.ledger.terminated is None:
        await held.ledger.open_ledger()
    held.ledger.configure(replace(kept, retention_time_minutes=0, retention_size_mb=0, message_ttl_seconds=0))
    try:
        await held.ledger.maintain()
    finally:
        held.ledger.configure(kept)


def message_id(position: Position, partition: int = -1, batch_index: int = -1) -> dict[str, int]:
    """Returns a message id as Jackson writes Java's MessageIdImpl."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": partition,
        "batchIndex": batch_index,
        "batchSize": 0,
    }


# --- properties -------------------------------------------------------------------------------------------------------


async def properties(call: Call) -> Answer:
    name = topic_of(call)
    await call.broker.service.catalog.check_namespace(name.namespace)
    record = await call.broker.service.catalog.partitioned.get(name)
    if record is not None:
        return dict(record.properties or {})
    held = (await loaded(call)).ledger.properties
    return {key: value for key, value in held.items() if key not in OWN_PROPERTIES}


async def set_properties(call: Call) -> Answer:
    """Sets the properties that the body names. Other properties stay as they are."""
    given = bodies.string_map(bodies.present(bodies.parse(call.body)))
    _check_properties(given)
    await _change_properties(call, given)
    return NO_CONTENT


async def remove_property(call: Call) -> Answer:
    """Removes the property that the parameter `key` names. As in Apache, a call without `key` removes nothing."""
    key = call.query.get("key")
    if key:
        _check_properties({key: ""})
    await _change_properties(call, {key: None} if key else {})
    return NO_CONTENT


async def _change_properties(call: Call, changes: Mapping[str, str | None]) -> None:
    name, service = topic_of(call), call.broker.service
    await service.catalog.check_namespace(name.namespace)
    record = await service.catalog.partitioned.get(name)
    if record is not None:
        _check_room(record.properties or {}, changes)
        await service.catalog.partitioned.update(name, properties=changes)
        for each in list(service.topics.values()):
            if each.name.is_partition and each.name.base == name:
                await service.refresh_policies(each)
        return
    held = await loaded(call)
    if changes:
        _check_room(held.ledger.properties, changes)
        await held.ledger.set_properties(changes)
        await service.refresh_policies(held)


def check_amount(what: str, properties: Mapping[str, str]) -> None:
    """Raises Refusal 412 when there are too many properties, or too large ones. `what` is the word for their owner in
    the refusal's text: topic or subscription."""
    fault = fault_of_properties(what, properties)
    if fault is not None:
        raise Refusal(412, fault)


def _check_room(held: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
    """Raises Refusal 412 when there would be too many properties after the changes. Changes that only remove properties
    are never refused."""
    if any(value is not None for value in changes.values()):
        after = {key: value for key, value in {**held, **changes}.items() if value is not None}
        check_amount("topic", after)


def _check_properties(given: Mapping[str, str]) -> None:
    check_amount("topic", given)
    for key in given:
        if key in OWN_PROPERTIES:
            raise Refusal(412, f"The property {key} is the server's own")


ROUTES = (
    Route("PUT", TOPIC, create, namespace("CREATE_TOPIC"), Place.TOPIC),
    Route("DELETE", TOPIC, delete, namespace("DELETE_TOPIC"), Place.TOPIC),
    Route("PUT", f"{TOPIC}/unload", unload, topic("UNLOAD"), Place.TOPIC_OR_PARTITIONS),
    Route("POST", f"{TOPIC}/terminate", terminate, topic("TERMINATE"), Place.TOPIC),
    Route("POST", f"{TOPIC}/terminate/partitions", terminate_partitions, topic("TERMINATE"), Place.ANY_BROKER),
    Route("POST", f"{TOPIC}/trim", trim, topic("TRIM_TOPIC"), Place.TOPIC_OR_PARTITIONS),
    Route("DELETE", f"{TOPIC}/truncate", truncate, namespace("DELETE_TOPIC"), Place.TOPIC_OR_PARTITIONS),
    Route("GET", f"{TOPIC}/properties", properties, topic("GET_METADATA"), Place.TOPIC),
    Route("PUT", f"{TOPIC}/properties", set_properties, topic("UPDATE_METADATA"), Place.TOPIC),
    Route("DELETE", f"{TOPIC}/properties", remove_property, topic("DELETE_METADATA"), Place.TOPIC),
)
