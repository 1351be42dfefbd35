"""The bundles of namespaces: listing, unloading and splitting them, calls on all topics of a bundle, anti-affinity.

The bundles of a namespace are stored in its local policies (/admin/local-policies), or in its policies while it has no
local ones. Source: NamespacesBase (internalUnloadNamespaceBundleAsync, internalSplitNamespaceBundleAsync),
LocalPolicies; answers recorded from Pulsar 4.0.7."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.metadata import paths
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.namespaces import bundle_ranges
from magnetar.server.namespaces.bundle_ranges import FULL_RANGE, bundle_of
from magnetar.server.process.turns import in_portions
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import SUPERUSER, namespace, namespace_policy
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService

LARGEST = "LARGEST"
ALGORITHMS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
HASHES_MAX = 10_000
"""The largest number of hashes at which one call may cut a bundle."""


async def bundles_of(service: "BrokerService", name: str) -> list[str]:
    """Returns the boundaries of a namespace's bundles; those of a single bundle when none are stored, also when the
    namespace does not exist. Raises MetadataError."""
    local = await json_records.read(service.metadata, paths.local_policies_path(name))
    bundles = (local or {}).get("bundles")
    if not bundles:
        bundles = (await service.policies.namespaces.get(name) or {}).get("bundles")
    return list((bundles or {}).get("boundaries") or FULL_RANGE)


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
    """Returns the full names of the topics in the call's bundle. Raises what `checked_bundle` raises."""
    boundaries, bundle = await checked_bundle(call)
    catalog, name = call.broker.service.catalog, namespace_of(call)
    names = [*await catalog.topics_of(name), *catalog.non_persistent_topics_of(name)]
    return [topic async for topic in in_portions(names) if bundle_of(boundaries, topic) == bundle]


async def unload_namespace(call: Call) -> Answer:
    name = namespace_of(call)
    await call.broker.service.catalog.check_namespace(name)
    await unload_loaded(call.broker.service, name)
    return NO_CONTENT


async def unload_bundle(call: Call) -> Answer:
    boundaries, bundle = await checked_bundle(call)
    destination = call.query.get("destinationBroker")
    if destination not in (None, "", call.broker.broker_id):
        raise Refusal(409, "Not allowed unload namespace bundle to inactive destination broker")
    await unload_loaded(call.broker.service, namespace_of(call), boundaries, bundle)
    return NO_CONTENT


async def unload_loaded(
    service: "BrokerService", name: str, boundaries: list[str] | None = None, bundle: str = ""
) -> None:
    """Unloads the loaded topics of a namespace, or of one of its bundles when `boundaries` are given. Clients
    reconnect, which loads their topics again."""
    for topic in list(service.topics.values()):
        if topic.name.namespace != name:
            continue
        if boundaries is None or bundle_of(boundaries, topic.name.full) == bundle:
            await service.unload(topic)


async def split(call: Call) -> Answer:
    """Splits a bundle in two, or at the hashes that the body lists. A bundle named `LARGEST` stands for the one with
    the most loaded topics. Raises Refusal 412."""
    service, name = call.broker.service, namespace_of(call)
    await service.catalog.check_namespace(name)
    algorithm = call.query.get("splitAlgorithmName", ALGORITHMS[0])
    if algorithm not in ALGORITHMS:
        raise Refusal(
            412,
            "Unsupported namespace bundle split algorithm, supported algorithms are [" + ", ".join(ALGORITHMS) + "]",
        )
    if call.parts["bundle"] == LARGEST:
        boundaries = await bundles_of(service, name)
        bundle = _largest(service, name, boundaries)
    else:
        boundaries, bundle = await checked_bundle(call)
    body = bodies.parse(call.body)
    at = [bodies.integer(point, bodies.LONG_MAX) for point in body] if isinstance(body, list) else []
    if len(at) > HASHES_MAX:
        raise Refusal(412, f"More than {HASHES_MAX} positions")
    try:
        cut = bundle_ranges.split(boundaries, bundle, at)
    except ValueError as error:
        raise Refusal(412, str(error)) from None
    await set_bundles(service, name, cut)
    if call.flag("unload"):
        for half in bundle_ranges.ranges_of(cut):
            if half not in bundle_ranges.ranges_of(boundaries):
                await unload_loaded(service, name, cut, half)
    return NO_CONTENT


def _largest(service: "BrokerService", name: str, boundaries: list[str]) -> str:
    counts = dict.fromkeys(bundle_ranges.ranges_of(boundaries), 0)
    for topic in service.topics.values():
        if topic.name.namespace == name:
            counts[bundle_of(boundaries, topic.name.full)] += 1
    return max(counts, key=lambda bundle: counts[bundle])


async def set_bundles(service: "BrokerService", name: str, boundaries: list[str]) -> None:
    def change(local: dict[str, Any]) -> None:
        local["bundles"] = {"boundaries": boundaries, "numBundles": len(boundaries) - 1}
        local.setdefault("migrated", False)

    await json_records.update(service.metadata, paths.local_policies_path(name), change, create=True)


async def change_local_policies(service: "BrokerService", name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the local policies of a namespace, which are those of this cluster only. If there are none yet, they are
    made with the namespace's bundles. Raises MetadataError."""
    boundaries = await bundles_of(service, name)

    def change_record(local: dict[str, Any]) -> None:
        local.setdefault("bundles", {"boundaries": boundaries, "numBundles": len(boundaries) - 1})
        local.setdefault("migrated", False)
        change(local)

    await json_records.update(service.metadata, paths.local_policies_path(name), change_record, create=True)


async def hash_positions(call: Call) -> Answer:
    """Answers with the hashes of the bundle's topics, between which it can be split. The parameter `topics` restricts
    them to some topics; a partitioned topic stands for all of its partitions."""
    wanted = {TopicName.parse(name) for name in call.all_of("topics")}
    positions = {}
    for name in await topics_in(call):
        topic = TopicName.parse(name)
        if not wanted or wanted & {topic, topic.base}:
            positions[name] = bundle_ranges.hash_of(name)
    return {"namespace": namespace_of(call), "bundle": call.parts["bundle"], "topicHashPositions": positions}


async def delete_bundle(call: Call) -> Answer:
    """Deletes the topics of a bundle, but not the bundle. Raises Refusal 409 when there are topics and the parameter
    `force` is not set, and 405 when the configuration does not allow forced deletion."""
    service = call.broker.service
    names = [TopicName.parse(name) for name in await topics_in(call)]
    if names and not call.flag("force"):
        raise Refusal(409, "Cannot delete non empty bundle")
    if names and not service.settings.force_delete_namespace_allowed:
        raise Refusal(405, "Broker doesn't allow forced deletion of namespaces")
    for name in names:
        with contextlib.suppress(TopicNotFound):
            await service.delete_topic(name, force=True)
    return NO_CONTENT


async def anti_affinity(call: Call) -> Answer:
    local = await json_records.read(call.broker.service.metadata, paths.local_policies_path(namespace_of(call)))
    group = (local or {}).get("namespaceAntiAffinityGroup")
    return NO_CONTENT if group is None else Text(group.encode())


async def set_anti_affinity(call: Call) -> Answer:
    """Puts the namespace into an anti-affinity group, and keeps its bundles: Apache loses them if the namespace was
    never loaded. Raises Refusal 404 when the namespace does not exist."""
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
    for child in await json_records.children(store, f"{paths.LOCAL_POLICIES}/{tenant}"):
        local = await json_records.read(store, paths.local_policies_path(f"{tenant}/{child}"))
        if (local or {}).get("namespaceAntiAffinityGroup") == call.parts["group"]:
            names.append(f"{tenant}/{child}")
    return names


ROUTES = (
    Route("GET", f"{NAMESPACES}/bundles", get, namespace("GET_BUNDLE")),
    Route("PUT", f"{NAMESPACES}/unload", unload_namespace, SUPERUSER),
    Route("PUT", f"{NAMESPACES}/{{bundle}}/unload", unload_bundle, SUPERUSER),
    Route("PUT", f"{NAMESPACES}/{{bundle}}/split", split, SUPERUSER),
    Route(
        "GET",
        f"{NAMESPACES}/{{bundle}}/topicHashPositions",
        hash_positions,
        namespace_policy("PERSISTENCE", write=False),
    ),
    Route("DELETE", f"{NAMESPACES}/{{bundle}}", delete_bundle, namespace("DELETE_BUNDLE")),
    Route("GET", f"{NAMESPACES}/antiAffinity", anti_affinity, namespace_policy("ANTI_AFFINITY", write=False)),
    Route("POST", f"{NAMESPACES}/antiAffinity", set_anti_affinity, namespace_policy("ANTI_AFFINITY", write=True)),
    Route("DELETE", f"{NAMESPACES}/antiAffinity", remove_anti_affinity, namespace_policy("ANTI_AFFINITY", write=True)),
    Route("GET", "/admin/v2/namespaces/{cluster}/antiAffinity/{group}", anti_affinity_namespaces, SUPERUSER),
    # Apache's Java and Go admin clients still use this path of Pulsar 1.
    Route(
        "GET",
        "/admin/namespaces/{cluster}/antiAffinity/{group}",
        partial(anti_affinity_namespaces, parameter="property"),
        SUPERUSER,
    ),
)
