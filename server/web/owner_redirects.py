"""Redirects each call to the broker that serves it, according to the `Place` that the call's route declares.

`check_place` runs once for each call, after the caller was authorized and before the handler runs. A call that is not
for this broker ends with `Moved`, an answer 307. A handler whose bundle or broker is not in the path calls one of the
functions `to_…` itself.

Sources: PulsarWebResource (validateTopicOwnershipAsync, validateBundleOwnershipAsync, validateLeaderBrokerAsync,
maybeRedirectToBroker).
"""

import logging
from collections.abc import Awaitable, Callable

from magnetar.metadata.errors import MetadataError
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import parse_range
from magnetar.server.transactions.coordinators import ASSIGN_TOPIC
from magnetar.server.web.calls import Call, Moved, Refusal
from magnetar.server.web.place_rules import AUTHORITATIVE, DESTINATION, location, web_url_of
from magnetar.server.web.places import Place
from pulsar_proto.errors import InvalidTopicName, MetadataFault, ServiceNotReady
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

PARTITION_DIGITS_MAX = 9
"""The largest number of digits of a partition's number. The handler refuses a longer number."""


async def check_place(place: Place, call: Call) -> None:
    """Returns when this broker serves the call. A call whose path names no valid topic or bundle is served here too,
    because its handler refuses it.

    Raises Moved when another broker serves the call, Refusal 412 when no broker does, Refusal 404 when the named broker
    does not exist, TopicNotFound when the namespace does not exist, and PulsarError.
    """
    check = _CHECKS.get(place)
    if check is not None:
        await check(call)


async def to_owner_of_topic(call: Call, name: TopicName) -> None:
    """Returns when this broker owns the topic. Raises the errors of `check_place`."""
    broker = call.broker
    if broker.ownership.owns(name):
        return
    await broker.service.catalog.check_namespace(name.namespace)
    try:
        answer = await broker.lookups.find_topic(name, authoritative=call.flag(AUTHORITATIVE))
    except (ServiceNotReady, MetadataFault) as error:
        raise _no_owner(f"Can't find owner for topic {name.full}", error) from error
    _go_on(call, answer.broker)


async def to_owner_of_bundle(call: Call, bundle: BundleName, *, acquire: bool) -> None:
    """Returns when this broker owns the bundle, or when nobody does and `acquire` is not set. With `acquire` the bundle
    gets an owner. Without `acquire`, this broker serves the call also while it is giving the bundle away. Raises what
    `check_place` raises."""
    broker = call.broker
    if broker.ownership.is_active(bundle) or (not acquire and bundle in broker.ownership.owned_bundles()):
        return
    try:
        if acquire:
            owner = (await broker.lookups.find(bundle, authoritative=call.flag(AUTHORITATIVE))).broker
        else:
            found = await broker.ownership.owner_of(bundle)
            if found is None:
                return
            owner = found
    except (ServiceNotReady, MetadataFault) as error:
        raise _no_owner(f"Failed to find ownership for ServiceUnit:{bundle}", error) from error
    _go_on(call, owner)


async def to_leader(call: Call) -> None:
    """Returns when this broker leads the cluster. Raises Moved when another broker does, and Refusal 412 when none
    does."""
    placement = call.broker.lookups.placement
    if placement.is_leader:
        return
    leader = await placement.leader()
    if leader is None or leader.broker_id == call.broker.broker_id:
        raise Refusal(412, "The current leader is empty.")
    raise Moved(location(call.target, web_url_of(leader.urls, is_https=call.is_https), authoritative=False))


async def to_broker(call: Call, broker_id: str) -> None:
    """Returns when `broker_id` is the id of this broker. Raises Moved when another broker has this id, and Refusal 404
    when no broker has it."""
    if broker_id == call.broker.broker_id:
        return
    found = await call.broker.lookups.placement.broker(broker_id)
    if found is None:
        raise Refusal(404, f"Broker id '{broker_id}' not found in available brokers.")
    raise Moved(location(call.target, web_url_of(found.urls, is_https=call.is_https)))


def _go_on(call: Call, owner: BrokerAddresses) -> None:
    """Raises Moved unless `owner` is this broker. Only the leader tells the next broker to decide on its own
    (AUTHORITATIVE)."""
    broker = call.broker
    if owner.broker_id == broker.broker_id:
        return
    web_url = web_url_of(owner.urls, is_https=call.is_https)
    if not web_url:
        raise Refusal(412, f"Broker {owner.broker_id or owner.urls.broker} has no HTTP address")
    is_leader = broker.lookups.placement.is_leader
    raise Moved(location(call.target, web_url, authoritative=is_leader, dropped=(DESTINATION,)))


def _no_owner(text: str, error: ServiceNotReady | MetadataFault) -> Exception:
    """Returns the refusal of a call for which no broker was found. Returns `error` itself when the metadata store
    failed."""
    if isinstance(error.__cause__, MetadataError):
        return error
    log.info("%s: %s", text, error)
    return Refusal(412, text)


async def _topic(call: Call) -> None:
    name = _topic_in(call)
    if name is not None:
        await to_owner_of_topic(call, name)


async def _topic_or_partitions(call: Call) -> None:
    """Checks the owner of a topic. A call on a partitioned topic is served here, because its handler asks the owners of
    the partitions."""
    name = _topic_in(call)
    if name is None or call.broker.ownership.owns(name):
        return
    if name.is_partition or await call.broker.service.catalog.partitioned.get(name) is None:
        await to_owner_of_topic(call, name)


async def _bundle(call: Call) -> None:
    bundle = await _bundle_in(call)
    if bundle is not None:
        await to_owner_of_bundle(call, bundle, acquire=False)


async def _found_bundle(call: Call) -> None:
    bundle = await _bundle_in(call)
    if bundle is not None:
        await to_owner_of_bundle(call, bundle, acquire=True)


async def _bundle_to_unload(call: Call) -> None:
    """Checks the place of an unload. The leader serves a call that names a destination: the handler notes the
    destination, and then redirects the call to the bundle's owner."""
    if call.query.get(DESTINATION):
        await to_leader(call)
    else:
        await _bundle(call)


async def _named_broker(call: Call) -> None:
    await to_broker(call, call.parts["broker"])


async def _queried_broker(call: Call) -> None:
    broker_id = call.query.get("brokerId")
    if broker_id:
        await to_broker(call, broker_id)


async def _coordinator(call: Call) -> None:
    """Checks the owner of the partition that stands for a transaction coordinator. The handler refuses a coordinator
    that does not exist, and every call while transactions are switched off."""
    text = call.parts.get("most") or call.parts.get("coordinator") or call.query.get("coordinatorId", "")
    coordinators = call.broker.transactions
    is_number = text.isascii() and text.isdecimal() and len(text) <= PARTITION_DIGITS_MAX
    if coordinators is not None and is_number and int(text) < await coordinators.count():
        await to_owner_of_topic(call, ASSIGN_TOPIC.partition(int(text)))


_CHECKS: dict[Place, Callable[[Call], Awaitable[None]]] = {
    Place.TOPIC: _topic,
    Place.TOPIC_OR_PARTITIONS: _topic_or_partitions,
    Place.BUNDLE: _bundle,
    Place.FOUND_BUNDLE: _found_bundle,
    Place.BUNDLE_TO_UNLOAD: _bundle_to_unload,
    Place.NAMED_BROKER: _named_broker,
    Place.QUERIED_BROKER: _queried_broker,
    Place.COORDINATOR: _coordinator,
}
"""The check for each place. A place that is not listed has no check."""


def _topic_in(call: Call) -> TopicName | None:
    """Returns the topic that the path names, or the partition if the path also has a partition's number. Returns None
    when the name or the number is not valid."""
    parts = call.parts
    domain, partition = parts.get("domain", "persistent"), parts.get("partition", "")
    try:
        name = TopicName.parse(f"{domain}://{parts['tenant']}/{parts['namespace']}/{parts['topic']}")
    except InvalidTopicName:
        return None
    if "partition" not in parts or name.is_partition:
        return name
    is_number = partition.isascii() and partition.isdecimal() and len(partition) <= PARTITION_DIGITS_MAX
    return name.partition(int(partition)) if is_number else None


async def _bundle_in(call: Call) -> BundleName | None:
    """Returns the bundle that the path names, or None when the namespace has no such bundle. Raises TopicNotFound when
    there is no such namespace."""
    parts = call.parts
    bounds = parse_range(parts.get("bundle") or parts.get("topic", ""))
    if bounds is None:
        return None
    namespace = f"{parts['tenant']}/{parts['namespace']}"
    bundle = BundleName.of(namespace, *bounds)
    if call.broker.ownership.is_sole:
        return bundle
    await call.broker.service.catalog.check_namespace(namespace)
    return bundle if bundle in await call.broker.ownership.bundles.get(namespace) else None
