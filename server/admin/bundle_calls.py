"""The calls that list the bundles of namespaces, act on all topics of a bundle, and set anti-affinity groups.

The bundles of a namespace are stored in its local policies (/admin/local-policies), or in its policies while it has no
local policies. Sources: NamespacesBase (getBundles, internalGetTopicHashPositionsAsync), LocalPolicies; answers
recorded from Pulsar 4.0.7."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.metadata import paths
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.namespaces import bundle_ranges
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import bundle_of
from magnetar.server.process.turns import in_portions
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import SUPERUSER, namespace, namespace_policy
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService


async def bundles_of(service: "BrokerService", name: str) -> list[str]:
    """Returns the boundaries of a namespace's bundles. When no boundaries are stored, or the namespace does not exist,
    returns those of a single bundle. Raises MetadataError."""
    return (await service.ownership.bundles.get(name)).texts


async def get(call: Call) -> Answer:
    name = namespace_of(call)
    if await call.broker.service.policies.namespaces.get(name) is None:
        raise Refusal(404, "Namespace does not exist")
    boundaries = await bundles_of(call.broker.service, name)
    return {"boundaries": boundaries, "numBundles": len(boundaries) - 1}


async def checked_bundle(call: Call) -> tuple[list[str], str]:
    """Returns the boundaries of the call's namespace and the call's bundle. Raises TopicNotFound when the namespace
    does not exist, and Refusal 412 when it has no such bundle."""
    name, bundle = namespace_of(call), call.parts["bundle"]
    await call.broker.service.catalog.check_namespace(name)
    boundaries = await bundles_of(call.broker.service, name)
    fault = bundle_ranges.fault_of_range(boundaries, name, bundle)
    if fault is not None:
        raise Refusal(412, fault)
    return boundaries, bundle


async def topics_in(call: Call) -> list[str]:
    """Returns the full names of the topics in the call's bundle. Raises the errors of `checked_bundle`."""
    boundaries, bundle = await checked_bundle(call)
    catalog, name = call.broker.service.catalog, namespace_of(call)
    names = [*await catalog.topics_of(name), *catalog.non_persistent_topics_of(name)]
    return [topic async for topic in in_portions(names) if bundle_of(boundaries, topic) == bundle]


async def change_local_policies(service: "BrokerService", name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the local policies of a namespace, which hold in this cluster only. If the namespace has no local
    policies yet, they are created with the namespace's bundles. Raises MetadataError."""
    boundaries = await bundles_of(service, name)

    def change_record(local: dict[str, Any]) -> None:
        local.setdefault("bundles", {"boundaries": boundaries, "numBundles": len(boundaries) - 1})
        local.setdefault("migrated", False)
        change(local)

    await json_records.update(service.metadata, paths.local_policies_path(name), change_record, create=True)


async def hash_positions(call: Call) -> Answer:
    """Answers with the hashes of the bundle's topics: the bundle can be split between any two of them. The parameter
    `topics` restricts the answer to some topics; a partitioned topic stands for all of its partitions."""
    wanted = {TopicName.parse(name) for name in call.all_of("topics")}
    positions = {}
    for name in await topics_in(call):
        topic = TopicName.parse(name)
        if not wanted or wanted & {topic, topic.base}:
            positions[name] = bundle_ranges.hash_of(name)
    return {"namespace": namespace_of(call), "bundle": call.parts["bundle"], "topicHashPositions": positions}


async def delete_bundle(call: Call) -> Answer:
    """Deletes the topics of a bundle and gives up the bundle's ownership. The bundle itself stays. Raises Refusal 409
    when the bundle has topics and the parameter `force` is not set, and 405 when the configuration does not allow
    forced deletion."""
    service = call.broker.service
    names = [TopicName.parse(name) for name in await topics_in(call)]
    if names and not call.flag("force"):
        raise Refusal(409, "Cannot delete non empty bundle")
    if names and not service.settings.force_delete_namespace_allowed:
        raise Refusal(405, "Broker doesn't allow forced deletion of namespaces")
    for name in names:
        with contextlib.suppress(TopicNotFound):
            await service.delete_topic(name, force=True)
    await call.broker.moves.unload(BundleName(namespace_of(call), call.parts["bundle"]))
    return NO_CONTENT


async def anti_affinity(call: Call) -> Answer:
    local = await json_records.read(call.broker.service.metadata, paths.local_policies_path(namespace_of(call)))
    group = (local or {}).get("namespaceAntiAffinityGroup")
    return NO_CONTENT if group is None else Text(group.encode())


async def set_anti_affinity(call: Call) -> Answer:
    """Puts the namespace into an anti-affinity group. The namespace keeps its bundles. In Apache's broker, a namespace
    that was never loaded loses its bundles by this call. Raises Refusal 404 when the namespace does not exist."""
    await _set_group(call, bodies.word(call.body) or None)
    return NO_CONTENT


async def remove_anti_affinity(call: Call) -> Answer:
    await _set_group(call, None)
    return NO_CONTENT


async def _set_group(call: Call, group: str | None) -> None:
    service, name = call.broker.service, namespace_of(call)
    try:
        await service.catalog.check_namespace(name)
    except TopicNotFound as error:
        raise Refusal(404, "Namespace does not exist") from error

    def change(local: dict[str, Any]) -> None:
        local.pop("namespaceAntiAffinityGroup", None)
        if group is not None:
            local["namespaceAntiAffinityGroup"] = group

    await change_local_policies(service, name, change)


async def anti_affinity_namespaces(call: Call, parameter: str = "tenant") -> Answer:
    """Lists the namespaces of a tenant that are in an anti-affinity group. `parameter` is the query parameter that
    names the tenant."""
    store, cluster = call.broker.service.metadata, call.parts["cluster"]
    if await store.exists(paths.cluster_path(cluster)) is None:
        raise Refusal(412, f"Cluster {cluster} does not exist.")
    tenant = call.query.get(parameter)
    if not tenant:
        raise Refusal(400, "Tenant should not be null")
    names = []
    async for child in in_portions(await json_records.children(store, f"{paths.LOCAL_POLICIES}/{tenant}")):
        local = await json_records.read(store, paths.local_policies_path(f"{tenant}/{child}"))
        if (local or {}).get("namespaceAntiAffinityGroup") == call.parts["group"]:
            names.append(f"{tenant}/{child}")
    return names


ROUTES = (
    Route("GET", f"{NAMESPACES}/bundles", get, namespace("GET_BUNDLE"), Place.ANY_BROKER),
    Route(
        "GET",
        f"{NAMESPACES}/{{bundle}}/topicHashPositions",
        hash_positions,
        namespace_policy("PERSISTENCE", write=False),
        Place.BUNDLE,
    ),
    Route("DELETE", f"{NAMESPACES}/{{bundle}}", delete_bundle, namespace("DELETE_BUNDLE"), Place.FOUND_BUNDLE),
    Route(
        "GET",
        f"{NAMESPACES}/antiAffinity",
        anti_affinity,
        namespace_policy("ANTI_AFFINITY", write=False),
        Place.ANY_BROKER,
    ),
    Route(
        "POST",
        f"{NAMESPACES}/antiAffinity",
        set_anti_affinity,
        namespace_policy("ANTI_AFFINITY", write=True),
        Place.ANY_BROKER,
    ),
    Route(
        "DELETE",
        f"{NAMESPACES}/antiAffinity",
        remove_anti_affinity,
        namespace_policy("ANTI_AFFINITY", write=True),
        Place.ANY_BROKER,
    ),
    Route(
        "GET",
        "/admin/v2/namespaces/{cluster}/antiAffinity/{group}",
        anti_affinity_namespaces,
        SUPERUSER,
        Place.ANY_BROKER,
    ),
    # Apache's Java and Go admin clients still use this path of Pulsar 1.
    Route(
        "GET",
        "/admin/namespaces/{cluster}/antiAffinity/{group}",
        partial(anti_affinity_namespaces, parameter="property"),
        SUPERUSER,
        Place.ANY_BROKER,
    ),
)
