"""The calls on the policies of namespaces. Each row of `policy_rows` is one policy, and has a call that reads, a call
that sets and a call that removes the policy. Policies that have more than one value have calls of their own.

Sources: Namespaces, NamespacesBase; answers recorded from Pulsar 4.0.7.
"""

import logging
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from magnetar.metadata import paths
from magnetar.server.admin import bodies, json_records, policy_shapes
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.admin.offload_policies import DEFAULTS, KEY, OF_OLDER_POLICIES
from magnetar.server.admin.policy_rows import NAMESPACE_ROWS, NOT_FOUND, NamespaceRow, PolicyRow
from magnetar.server.policies.namespace_records import NamespaceChange, NamespaceNotFound
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import TENANT_ADMIN, namespace_policy
from magnetar.server.web.places import Place

log = logging.getLogger(__name__)

QUOTA_TYPES = ("destination_storage", "message_age")
TOO_LITTLE_RETAINED = "Retention Quota must exceed configured backlog quota for namespace."


async def record_of(call: Call) -> dict[str, Any]:
    """Returns the policies of the call's namespace. Raises Refusal 404 when the namespace does not exist."""
    record = await call.broker.service.policies.namespaces.get(namespace_of(call))
    if record is None:
        raise Refusal(404, NOT_FOUND)
    return record


async def change_record(call: Call, change: NamespaceChange, missing: str = NOT_FOUND) -> None:
    """Changes the policies of the call's namespace. Raises Refusal 404, with the text `missing`, when the namespace
    does not exist, and what `change` raises."""
    try:
        await call.broker.service.policies.namespaces.update(namespace_of(call), change)
    except NamespaceNotFound:
        raise Refusal(404, missing) from None


def tell_if_without_effect(row: PolicyRow, whose: str, value: Any) -> None:
    """Logs a warning when a policy is set that has no effect in this broker. A value of -1 needs no warning, because -1
    switches a threshold off."""
    if row.without_effect and value and value != -1:
        log.warning("%s: policy without effect in this version: %s: %s", whose, row.path, row.without_effect)


async def _get(row: NamespaceRow, call: Call) -> Answer:
    value = (await record_of(call)).get(row.key)
    if row.per_cluster and value is not None:
        value = value.get(call.broker.cluster)
    return row.absent if value is None else value


async def _set(row: NamespaceRow, call: Call) -> Answer:
    body = bodies.parse(call.body)
    if row.needs_body:
        bodies.present(body)
    value = row.read(None if body is bodies.ABSENT else body)
    row.check(value)

    def change(record: dict[str, Any]) -> None:
        if row.path == "retention":
            quota = (record.get("backlog_quota_map") or {}).get(QUOTA_TYPES[0])
            if not policy_shapes.retention_exceeds_quota(value, quota):
                raise Refusal(412, TOO_LITTLE_RETAINED)
        _store(row, record, call.broker.cluster, value)

    await change_record(call, change, row.missing)
    tell_if_without_effect(row, namespace_of(call), value)
    return NO_CONTENT


async def _remove(row: NamespaceRow, call: Call) -> Answer:
    await change_record(call, lambda record: _store(row, record, call.broker.cluster, None), row.missing)
    return NO_CONTENT


def _store(row: NamespaceRow, record: dict[str, Any], cluster: str, value: Any) -> None:
    """Puts the value of a policy into the namespace's record; None removes the policy."""
    if row.key in OF_OLDER_POLICIES:
        offload = {**DEFAULTS, **(record.get(KEY) or {}), OF_OLDER_POLICIES[row.key]: value}
        record[KEY] = {name: each for name, each in offload.items() if each is not None}
    for key in filter(None, (row.key, row.mirrors)):
        if row.per_cluster:
            rates = record[key] = dict(record.get(key) or {})
            rates.pop(cluster, None)
            if value is not None:
                rates[cluster] = value
        elif value is None and row.unset is None:
            record.pop(key, None)
        else:
            record[key] = row.unset if value is None else value


def _routes_of(row: NamespaceRow) -> list[Route]:
    """Returns the calls that read, set and, if the policy is removable, remove the policy of a row."""
    path, read = f"{NAMESPACES}/{row.path}", namespace_policy(row.name, write=False)
    write = namespace_policy(row.name, write=True)
    routes = [
        Route("GET", path, partial(_get, row), read, Place.ANY_BROKER),
        Route(row.method, path, partial(_set, row), write, Place.ANY_BROKER),
    ]
    if row.removable:
        routes.append(Route("DELETE", path, partial(_remove, row), write, Place.ANY_BROKER))
    return routes


# --- backlog quotas ---------------------------------------------------------------------------------------------------


def quota_type(call: Call) -> str:
    """Returns the type of backlog quota that the call names, or the default type. Raises Refusal 400 for an unknown
    type."""
    return bodies.one_of(call.query.get("backlogQuotaType", QUOTA_TYPES[0]), QUOTA_TYPES, "backlogQuotaType")


async def backlog_quotas(call: Call) -> Answer:
    return (await record_of(call)).get("backlog_quota_map") or {}


async def set_backlog_quota(call: Call) -> Answer:
    kind, body = quota_type(call), bodies.parse(call.body)
    quota = policy_shapes.backlog_quota(None if body is bodies.ABSENT else body, namespace_of(call))

    def change(record: dict[str, Any]) -> None:
        retention = record.get("retention_policies")
        if not policy_shapes.retention_exceeds_quota(retention, quota):
            raise Refusal(
                412,
                "Backlog Quota exceeds configured retention quota for namespace. "
                "Please increase retention quota and retry",
            )
        record["backlog_quota_map"] = {**(record.get("backlog_quota_map") or {}), kind: quota}

    await change_record(call, change)
    return NO_CONTENT


async def remove_backlog_quota(call: Call) -> Answer:
    kind = quota_type(call)

    def change(record: dict[str, Any]) -> None:
        quotas = record.get("backlog_quota_map") or {}
        record["backlog_quota_map"] = {each: quota for each, quota in quotas.items() if each != kind}

    await change_record(call, change)
    return NO_CONTENT


# --- clusters ---------------------------------------------------------------------------------------------------------


async def replication(call: Call) -> Answer:
    return (await record_of(call)).get("replication_clusters") or []


async def set_replication(call: Call) -> Answer:
    clusters = bodies.strings(bodies.present(bodies.parse(call.body)))
    store = call.broker.service.metadata
    if not clusters:
        raise Refusal(412, "ClusterIds should not be null or empty")
    record = await record_of(call)
    if "global" in clusters:
        raise Refusal(412, "Cannot specify global in the list of replication clusters")
    known = await json_records.children(store, paths.CLUSTERS)
    for cluster in clusters:
        if cluster not in known:
            raise Refusal(403, f"Invalid cluster id: {cluster}")
    check_allowed(call, clusters, record.get("allowed_clusters") or await _tenant_clusters(call))
    await change_record(call, lambda each: each.update(replication_clusters=clusters))
    return EMPTY


async def allowed_clusters(call: Call) -> Answer:
    return (await record_of(call)).get("allowed_clusters") or []


async def set_allowed_clusters(call: Call) -> Answer:
    clusters = bodies.strings(bodies.present(bodies.parse(call.body)))
    of_tenant = await _tenant_clusters(call)
    record = await record_of(call)
    check_allowed(call, clusters, of_tenant)
    for cluster in record.get("replication_clusters") or ():
        if cluster not in clusters:
            raise Refusal(
                400,
                f"Allowed clusters do not contain the replication cluster {cluster}. Please remove the replication "
                "cluster if the cluster is not allowed for this namespace",
            )
    await change_record(call, lambda each: each.update(allowed_clusters=clusters))
    return EMPTY


def check_allowed(call: Call, clusters: Iterable[str], allowed: Collection[str]) -> None:
    """Raises Refusal 403 for a cluster that is not allowed."""
    for cluster in clusters:
        if cluster not in allowed:
            raise Refusal(
                403,
                f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{call.parts['tenant']}]",
            )


async def _tenant_clusters(call: Call) -> list[str]:
    """Returns the clusters that the call's tenant may use. Raises Refusal 404 when the tenant does not exist."""
    tenant = await json_records.read(call.broker.service.metadata, paths.tenant_path(call.parts["tenant"]))
    if tenant is None:
        raise Refusal(404, "Tenant does not exist")
    return tenant.get("allowedClusters") or []


# --- properties -------------------------------------------------------------------------------------------------------


async def properties(call: Call) -> Answer:
    return (await record_of(call)).get("properties") or {}


async def set_properties(call: Call) -> Answer:
    """Sets the properties that the body names. Other properties stay as they are."""
    given = bodies.string_map(bodies.present(bodies.parse(call.body)))
    await _set_properties(call, given)
    return NO_CONTENT


async def clear_properties(call: Call) -> Answer:
    await change_record(call, lambda record: record.update(properties={}))
    return NO_CONTENT


async def get_property(call: Call) -> Answer:
    value = ((await record_of(call)).get("properties") or {}).get(call.parts["key"])
    return EMPTY if value is None else Text(str(value).encode())


async def set_property(call: Call) -> Answer:
    await _set_properties(call, {call.parts["key"]: call.parts["value"]})
    return NO_CONTENT


async def remove_property(call: Call) -> Answer:
    """Removes a property and answers with the property's last value."""
    removed: list[str] = []

    def change(record: dict[str, Any]) -> None:
        kept = dict(record.get("properties") or {})
        removed[:] = [kept.pop(call.parts["key"], "")]
        record["properties"] = kept

    await change_record(call, change)
    return Text(removed[0].encode())


async def _set_properties(call: Call, given: dict[str, str]) -> None:
    def change(record: dict[str, Any]) -> None:
        record["properties"] = {**(record.get("properties") or {}), **given}

    await change_record(call, change)


def _of(path: str, get: Any, set_with: str, put: Any, name: str) -> list[Route]:
    return [
        Route("GET", f"{NAMESPACES}/{path}", get, namespace_policy(name, write=False), Place.ANY_BROKER),
        Route(set_with, f"{NAMESPACES}/{path}", put, namespace_policy(name, write=True), Place.ANY_BROKER),
    ]


ROUTES = (
    *(route for row in NAMESPACE_ROWS for route in _routes_of(row)),
    Route(
        "GET",
        f"{NAMESPACES}/backlogQuotaMap",
        backlog_quotas,
        namespace_policy("BACKLOG", write=False),
        Place.ANY_BROKER,
    ),
    Route(
        "POST",
        f"{NAMESPACES}/backlogQuota",
        set_backlog_quota,
        namespace_policy("BACKLOG", write=True),
        Place.ANY_BROKER,
    ),
    Route(
        "DELETE",
        f"{NAMESPACES}/backlogQuota",
        remove_backlog_quota,
        namespace_policy("BACKLOG", write=True),
        Place.ANY_BROKER,
    ),
    *_of("replication", replication, "POST", set_replication, "REPLICATION"),
    *_of("allowedClusters", allowed_clusters, "POST", set_allowed_clusters, "ALLOW_CLUSTERS"),
    Route("GET", f"{NAMESPACES}/properties", properties, TENANT_ADMIN, Place.ANY_BROKER),
    Route("PUT", f"{NAMESPACES}/properties", set_properties, TENANT_ADMIN, Place.ANY_BROKER),
    Route("DELETE", f"{NAMESPACES}/properties", clear_properties, TENANT_ADMIN, Place.ANY_BROKER),
    Route("GET", f"{NAMESPACES}/property/{{key}}", get_property, TENANT_ADMIN, Place.ANY_BROKER),
    Route("DELETE", f"{NAMESPACES}/property/{{key}}", remove_property, TENANT_ADMIN, Place.ANY_BROKER),
    Route("PUT", f"{NAMESPACES}/property/{{key}}/{{value}}", set_property, TENANT_ADMIN, Place.ANY_BROKER),
)
