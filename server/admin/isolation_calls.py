"""The calls on isolation policies, which say which brokers may serve which namespaces.

In standalone, these policies have no effect, because one broker serves all namespaces. In a cluster, the load manager
obeys them when it places bundles. The change of a policy unloads the bundles that may have to move because of it.

Source: ClustersBase (NamespaceIsolationPolicies), NamespaceIsolationDataImpl, NamespaceIsolationPolicyImpl; answers
recorded from Pulsar 4.0.7.
"""

import logging
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore
from magnetar.server.admin import bodies, json_records
from magnetar.server.admin.isolation_change_rules import UNLOAD_SCOPES, matches, moved_by_isolation
from magnetar.server.admin.isolation_unloads import unload_moved
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place

log = logging.getLogger(__name__)

Policies = dict[str, dict[str, Any]]

FAILOVER_TYPE = "min_available"
FAILOVER_PARAMETERS = ("min_limit", "usage_threshold")


async def list_all(call: Call) -> Answer:
    return await _existing(call, missing_cluster=404)


async def get(call: Call) -> Answer:
    found = (await _existing(call)).get(call.parts["policy"])
    if found is None:
        raise Refusal(
            404, f"Cannot find NamespaceIsolationPolicy {call.parts['policy']} for cluster {call.parts['cluster']}"
        )
    return found


async def put(call: Call) -> Answer:
    await _check_cluster(call)
    name, policy = call.parts["policy"], _read(call)
    before: dict[str, Any] = {}

    def change(held: dict[str, Any]) -> None:
        before.clear()
        before.update(held.get(name) or {})
        held[name] = policy

    await json_records.update(_store(call), _path(call), change, create=True)
    if call.broker.ownership.is_sole:
        log.warning("isolation policy %s is without effect: one broker serves all namespaces", name)
    elif call.parts["cluster"] == call.broker.cluster:
        names = json_records.all_namespaces(_store(call))
        moved = [each async for each in names if moved_by_isolation(each, before, policy)]
        await unload_moved(call.broker, moved)
    return NO_CONTENT


async def delete(call: Call) -> Answer:
    """Deletes a policy. As in Apache's broker, the call also succeeds when there is no such policy."""
    await _check_cluster(call)
    name = call.parts["policy"]
    if name in (await json_records.read(_store(call), _path(call)) or {}):
        await json_records.update(_store(call), _path(call), lambda held: held.pop(name, None))
    return NO_CONTENT


async def brokers(call: Call) -> Answer:
    await _check_cluster(call)
    held = await _existing(call)
    return [_broker(name, held) for name in await call.broker.lookups.placement.brokers()]


async def broker(call: Call) -> Answer:
    """Answers with the policies that hold for a broker of this name. The broker need not exist."""
    await _check_cluster(call)
    return _broker(call.parts["broker"], await json_records.read(_store(call), _path(call)) or {})


def _broker(name: str, policies: Policies) -> dict[str, Any]:
    shown: dict[str, Any] = {"brokerName": name}
    namespaces: list[str] = []
    primary = False
    for policy_name, policy in policies.items():
        is_primary = matches(name, policy.get("primary") or [])
        if is_primary or matches(name, policy.get("secondary") or []):
            shown["policyName"] = policy_name
            namespaces += policy.get("namespaces") or []
            primary = primary or is_primary
    return {**shown, "namespaceRegex": namespaces, "primary": primary}


def _read(call: Call) -> dict[str, Any]:
    """Returns the policy in the body of a call. Raises Refusal 400 when the body holds no policy."""
    given = bodies.obj(bodies.present(bodies.parse(call.body)))
    failover = bodies.obj(given.get("auto_failover_policy") or {}, "auto_failover_policy")
    parameters = bodies.string_map(failover.get("parameters") or {}, "parameters")
    lists = {key: bodies.strings(given.get(key) or [], key) for key in ("namespaces", "primary", "secondary")}
    whole = (
        lists["namespaces"]
        and lists["primary"]
        and given.get("secondary") is not None
        and failover.get("policy_type") == FAILOVER_TYPE
        and all(parameters.get(key, "").isdecimal() for key in FAILOVER_PARAMETERS)
    )
    if not whole:
        raise Refusal(
            400,
            f"Invalid format of input policy data. policy: {call.parts['policy']}: namespaces, primary, secondary and "
            f"auto_failover_policy are needed, the last one with policy_type {FAILOVER_TYPE} and numbers as "
            f"{' and '.join(FAILOVER_PARAMETERS)}",
        )
    policy = {**lists, "auto_failover_policy": {"parameters": parameters, "policy_type": FAILOVER_TYPE}}
    if given.get("unload_scope") is not None:
        policy["unload_scope"] = bodies.one_of(given["unload_scope"], UNLOAD_SCOPES, "unload_scope")
    return policy


async def _existing(call: Call, missing_cluster: int = 412) -> Policies:
    """Returns the policies of the call's cluster. Raises Refusal with the status `missing_cluster`
    when there is no such cluster, and Refusal 404 when the cluster never had a policy."""
    await _check_cluster(call, missing_cluster)
    held: Policies | None = await json_records.read(_store(call), _path(call))
    if held is None:
        raise Refusal(404, f"NamespaceIsolationPolicies for cluster {call.parts['cluster']} does not exist")
    return held


async def _check_cluster(call: Call, status: int = 412) -> None:
    cluster = call.parts["cluster"]
    if await _store(call).exists(paths.cluster_path(cluster)) is None:
        raise Refusal(status, f"Cluster {cluster} does not exist.")


def _store(call: Call) -> MetadataStore:
    return call.broker.service.metadata


def _path(call: Call) -> str:
    return f"{paths.cluster_path(call.parts['cluster'])}/namespaceIsolationPolicies"


POLICIES = "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies"

ROUTES = (
    Route("GET", POLICIES, list_all, SUPERUSER, Place.ANY_BROKER),
    Route("GET", f"{POLICIES}/brokers", brokers, SUPERUSER, Place.ANY_BROKER),
    Route("GET", f"{POLICIES}/brokers/{{broker}}", broker, SUPERUSER, Place.ANY_BROKER),
    Route("GET", f"{POLICIES}/{{policy}}", get, SUPERUSER, Place.ANY_BROKER),
    Route("POST", f"{POLICIES}/{{policy}}", put, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", f"{POLICIES}/{{policy}}", delete, SUPERUSER, Place.ANY_BROKER),
)
