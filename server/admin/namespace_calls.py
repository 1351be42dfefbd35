"""The calls that list, create, read and delete namespaces, and list their topics.

Sources: Namespaces, NamespacesBase; answers recorded from Pulsar 4.0.7.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import bundles_data, policies_value, to_json
from magnetar.metadata.errors import NodeExistsError
from magnetar.server.admin import bodies, json_records, offload_policies, policy_shapes
from magnetar.server.admin.bundle_calls import bundles_of, topics_in
from magnetar.server.admin.call_paths import NAMESPACES, TOPIC, TOPICS, namespace_of
from magnetar.server.admin.namespace_deletion import delete_namespace
from magnetar.server.admin.namespace_policy_calls import QUOTA_TYPES, check_allowed, tell_if_without_effect
from magnetar.server.admin.non_persistent_lists import non_persistent_topics
from magnetar.server.admin.permission_calls import ACTIONS
from magnetar.server.admin.policy_rows import NAMESPACE_ROWS
from magnetar.server.namespaces.bundle_ranges import bundle_of, fault_of_boundaries
from magnetar.server.process.turns import in_portions, in_slices
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import namespace, namespace_policy, tenant_operation
from magnetar.server.web.places import Place
from pulsar_proto.names import NON_PERSISTENT, PERSISTENT
from pulsar_proto.system_topics import is_system_name

MODES = ("PERSISTENT", "NON_PERSISTENT", "ALL")

BUNDLES_MAX = 65_536
"""The largest number of bundles of a new namespace. The boundaries of more bundles would not fit into a record, which
ZooKeeper limits to 1 MB."""

NOT_FOUND = "Namespace does not exist"


async def list_of_tenant(call: Call) -> Answer:
    tenant, store = call.parts["tenant"], call.broker.service.metadata
    if await store.exists(paths.tenant_path(tenant)) is None:
        raise Refusal(404, "Tenant not found")
    return [f"{tenant}/{child}" for child in await json_records.children(store, paths.tenant_path(tenant))]


async def list_of_cluster(call: Call) -> Answer:
    """Lists a tenant's namespaces of Pulsar 1, each of which belonged to one cluster. The list is always empty, but
    command line tools still make this call."""
    await list_of_tenant(call)
    return []


async def get(call: Call) -> Answer:
    """Answers with the policies of a namespace and the bundles that it has now."""
    name, service = namespace_of(call), call.broker.service
    policies = await service.policies.namespaces.get(name)
    if policies is None:
        raise Refusal(404, NOT_FOUND)
    boundaries = await bundles_of(service, name)
    return {**policies, "bundles": {"boundaries": boundaries, "numBundles": len(boundaries) - 1}}


async def create(call: Call) -> Answer:
    name, service = namespace_of(call), call.broker.service
    body = bodies.parse(call.body)
    given = {} if body is bodies.ABSENT or body is None else bodies.obj(body)
    tenant = await json_records.read(service.metadata, paths.tenant_path(call.parts["tenant"]))
    if tenant is None:
        raise Refusal(404, "Tenant does not exist")
    if await service.policies.namespaces.get(name) is not None:
        raise Refusal(409, "Namespace already exists")
    policies = _new_policies(call, given, tenant)
    try:
        await service.metadata.create(paths.policies_path(name), to_json(policies))
    except NodeExistsError:
        raise Refusal(409, "Namespace already exists") from None
    await service.policies.namespaces.refresh(name)
    return NO_CONTENT


def _new_policies(call: Call, given: dict[str, Any], tenant: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of a new namespace with the given policies; unknown policies are left out. Raises Refusal for
    a value that a policy does not allow."""
    cluster = call.broker.cluster
    policies: dict[str, Any] = json.loads(policies_value([cluster], auto_update_schema=True))
    policies["bundles"] = _new_bundles(call, given.get("bundles"))
    if given.get("replication_clusters"):
        clusters = bodies.strings(given["replication_clusters"], "replication_clusters")
        check_allowed(call, clusters, tenant.get("allowedClusters") or ())
        policies["replication_clusters"] = clusters
    for row in NAMESPACE_ROWS:
        value = given.get(row.key)
        if value is None:
            continue
        if row.per_cluster:
            policies[row.key] = {each: row.read(rate) for each, rate in bodies.obj(value).items()}
        else:
            policies[row.key] = row.read(value)
            row.check(policies[row.key])
            tell_if_without_effect(row, namespace_of(call), value)
    for key, read in _OTHER_POLICIES.items():
        if given.get(key):
            policies[key] = read(given[key])
    return policies


def _read_quotas(value: Any) -> dict[str, Any]:
    quotas = bodies.obj(value, "backlog_quota_map")
    return {
        bodies.one_of(kind, QUOTA_TYPES, "backlog_quota_map"): policy_shapes.backlog_quota(quota, "new")
        for kind, quota in quotas.items()
    }


def _read_permissions(value: Any) -> dict[str, Any]:
    auth = bodies.obj(value, "auth_policies")

    def grants(roles: Any) -> dict[str, list[str]]:
        return {role: bodies.some_of(actions, ACTIONS, role) for role, actions in bodies.obj(roles or {}).items()}

    topics = bodies.obj(auth.get("destination_auth") or {}, "destination_auth")
    subscriptions = bodies.obj(auth.get("subscription_auth_roles") or {}, "subscription_auth_roles")
    return {
        "namespace_auth": grants(auth.get("namespace_auth")),
        "destination_auth": {topic: grants(roles) for topic, roles in topics.items()},
        "subscription_auth_roles": {name: bodies.strings(roles, name) for name, roles in subscriptions.items()},
    }


_OTHER_POLICIES: dict[str, Callable[[Any], Any]] = {
    "backlog_quota_map": _read_quotas,
    "auth_policies": _read_permissions,
    "allowed_clusters": bodies.strings,
    "properties": bodies.string_map,
    "offload_policies": offload_policies.read,
}
"""The readers of a new namespace's policies that are not rows of `policy_rows`."""


def _new_bundles(call: Call, given: Any) -> dict[str, Any]:
    """Returns the bundles of a new namespace: bundles with the given boundaries, or the given number of bundles, or the
    default number. Raises Refusal 400 when the given bundles make no sense."""
    value = {} if given is None else bodies.obj(given, "bundles")
    count = bodies.integer(value.get("numBundles"), what="numBundles")
    if value.get("boundaries"):
        boundaries = bodies.strings(value["boundaries"], "boundaries")
        fault = fault_of_boundaries(boundaries)
        if fault is not None:
            raise Refusal(400, fault)
        return {"boundaries": boundaries, "numBundles": len(boundaries) - 1}
    if not 0 <= count <= BUNDLES_MAX:
        raise Refusal(
            400, f"Invalid number of bundles. Number of bundles has to be in the range of (0, {BUNDLES_MAX}]."
        )
    return bundles_data(count or call.broker.service.settings.default_number_of_namespace_bundles)


async def delete(call: Call) -> Answer:
    force = call.flag("force")
    if force and not call.broker.service.settings.force_delete_namespace_allowed:
        raise Refusal(405, "Broker doesn't allow forced deletion of namespaces")
    await delete_namespace(call.broker, namespace_of(call), force=force)
    return NO_CONTENT


# --- the topics of a namespace ---------------------------------------------------------------------------------------


async def topics(call: Call) -> Answer:
    """Lists the topics of the domain that the parameter `mode` names, or of both domains if `mode` is ALL. Without
    `mode`, lists the persistent topics. With `includeSystemTopic` system topics are listed as well."""
    mode = call.query.get("mode", "PERSISTENT").upper()
    if mode not in MODES:
        raise Refusal(404, f"There is no mode {mode}")
    listed: list[str] = []
    if mode != "NON_PERSISTENT":
        listed += await _listed(call, PERSISTENT)
    if mode != "PERSISTENT":
        listed += await _listed(call, NON_PERSISTENT)
    return listed


async def topics_of_domain(call: Call) -> Answer:
    """Lists the topics of the path's domain, restricted to a bundle by the parameter `bundle`. With
    `includeSystemTopic` system topics are listed as well."""
    names = await _listed(call, call.parts["domain"])
    bundle = call.query.get("bundle")
    if not bundle:
        return names
    boundaries = await bundles_of(call.broker.service, namespace_of(call))
    return [name async for name in in_portions(names) if bundle_of(boundaries, name) == bundle]


async def topics_of_bundle(call: Call) -> Answer:
    """Lists the non-persistent topics of a bundle, for `/non-persistent/{tenant}/{namespace}/{bundle}`. Raises Refusal
    405 for the domain `persistent`, which has no such call."""
    if call.parts["domain"] == PERSISTENT:
        raise Refusal(405, "GET is not allowed here")
    call.parts = {**call.parts, "bundle": call.parts["topic"]}
    return [name for name in await topics_in(call) if not name.startswith(f"{PERSISTENT}://")]


async def partitioned_topics(call: Call) -> Answer:
    return await _partitioned(call, call.parts["domain"])


async def partitioned_non_persistent_topics(call: Call) -> Answer:
    return await _partitioned(call, NON_PERSISTENT)


async def _partitioned(call: Call, domain: str) -> Answer:
    name = namespace_of(call)
    await check_exists(call, name)
    names = await call.broker.service.catalog.partitioned.names(name, domain)
    return names if call.flag("includeSystemTopic") else await without_system_topics(names)


async def _listed(call: Call, domain: str) -> Sequence[str]:
    name, catalog = namespace_of(call), call.broker.service.catalog
    await check_exists(call, name)
    names = await catalog.topics_of(name) if domain == PERSISTENT else await non_persistent_topics(call.broker, name)
    return names if call.flag("includeSystemTopic") else await without_system_topics(names)


async def without_system_topics(names: Sequence[str]) -> list[str]:
    shown: list[str] = []
    async for some in in_slices(names):
        shown += [name for name in some if not is_system_name(name)]
    return shown


async def check_exists(call: Call, name: str) -> None:
    """Raises Refusal 404 when there is no such namespace."""
    if not await call.broker.service.catalog.namespace_exists(name):
        raise Refusal(404, NOT_FOUND)


ROUTES = (
    Route(
        "GET", "/admin/v2/namespaces/{tenant}", list_of_tenant, tenant_operation("LIST_NAMESPACES"), Place.ANY_BROKER
    ),
    Route(
        "GET",
        "/admin/namespaces/{tenant}/{cluster}",
        list_of_cluster,
        tenant_operation("LIST_NAMESPACES"),
        Place.ANY_BROKER,
    ),
    Route("GET", NAMESPACES, get, namespace_policy("ALL", write=False), Place.ANY_BROKER),
    Route("PUT", NAMESPACES, create, tenant_operation("CREATE_NAMESPACE"), Place.ANY_BROKER),
    Route("DELETE", NAMESPACES, delete, tenant_operation("DELETE_NAMESPACE"), Place.ANY_BROKER),
    Route("GET", f"{NAMESPACES}/topics", topics, namespace("GET_TOPICS"), Place.ANY_BROKER),
    Route("GET", TOPICS, topics_of_domain, namespace("GET_TOPICS"), Place.ANY_BROKER),
    Route("GET", f"{TOPICS}/partitioned", partitioned_topics, namespace("GET_TOPICS"), Place.ANY_BROKER),
    # This route has a literal domain because `{bundle}` below would match as well. Spark's connector asks for the
    # partitioned topics of both domains.
    Route(
        "GET",
        "/admin/v2/non-persistent/{tenant}/{namespace}/partitioned",
        partitioned_non_persistent_topics,
        namespace("GET_TOPICS"),
        Place.ANY_BROKER,
    ),
    Route("GET", TOPIC, topics_of_bundle, namespace("GET_BUNDLE"), Place.BUNDLE),
)
