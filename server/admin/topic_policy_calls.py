"""The calls on the policies of topics. Each row of `policy_rows` is one policy, and has a call that reads, a call that
sets and a call that removes the policy. Policies that have more than one value have calls of their own.

The parameter `isGlobal` chooses the policies for all clusters instead of those for this one. With the parameter
`applied`, a call that reads a policy answers with the value in force, which may come from the namespace or from
broker.conf.

Sources: PersistentTopics, PersistentTopicsBase; answers recorded from Pulsar 4.0.7.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from magnetar.server.admin import bodies, policy_shapes
from magnetar.server.admin.call_paths import TOPIC, namespace_of, topic_of
from magnetar.server.admin.namespace_policy_calls import QUOTA_TYPES, quota_type, tell_if_without_effect
from magnetar.server.admin.policy_rows import TOPIC_ROWS, TopicRow, shown_dispatch_rate
from magnetar.server.policies.policy_values import BacklogQuotas
from magnetar.server.policies.topic_policies_service import TopicPoliciesChange
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic_policy
from magnetar.server.web.places import Place
from pulsar_proto.names import TopicName

TOO_LITTLE_RETAINED = (
    "Retention Quota must exceed configured backlog quota for topic. Please increase retention quota and retry"
)


async def checked_topic(call: Call) -> TopicName:
    """Loads the policies of the call's topic and returns its name. Raises TopicNotFound when the namespace does not
    exist, Refusal 412 for a partition, and 404 when there is no such persistent topic: non-persistent topics have no
    policies."""
    name, service = topic_of(call), call.broker.service
    await service.catalog.check_namespace(name.namespace)
    if name.is_partition:
        raise Refusal(412, "Not allowed to set/get topic policy for a partition")
    known = name.is_persistent and (
        await service.catalog.partitioned.get(name) is not None or await service.catalog.topic_exists(name)
    )
    if not known:
        raise Refusal(404, f"Topic {name.full} not found")
    await service.policies.load(name)
    return name


def own_policies(call: Call, name: TopicName) -> Mapping[str, Any]:
    """Returns the topic's own policies: those for all clusters if the call's parameter `isGlobal` is set, otherwise
    those for this cluster. The caller has called `checked_topic` before, which loads the policies."""
    return call.broker.service.policies.topics.get(name, is_global=call.flag("isGlobal"))


async def change_policies(call: Call, name: TopicName, change: TopicPoliciesChange) -> None:
    """Changes the topic's own policies, chosen as in `own_policies`. Raises PulsarError, and what `change` raises."""
    await call.broker.service.policies.topics.update(name, change, is_global=call.flag("isGlobal"))


async def _get(row: TopicRow, call: Call) -> Answer:
    name = await checked_topic(call)
    policies = call.broker.service.policies
    if call.flag("applied"):
        if row.path == "persistence":
            return applied_persistence(call, name)
        own = policies.topics.merged(name).get(row.key)
        if row.applied is not None and own is None:
            return row.applied(policies.of(name))
    held = own_policies(call, name)
    if row.keys is not None:
        values = {member: held.get(key) for member, key in row.keys.items()}
        return row.absent if None in values.values() else values
    value = held.get(row.key)
    return row.absent if value is None else value


def applied_persistence(call: Call, name: TopicName) -> Answer:
    held = call.broker.service.policies.of(name).persistence
    config = call.broker.service.managed_ledgers.config
    ensemble, write, ack = config.quorums
    return {
        "bookkeeperEnsemble": held.ensemble if held else ensemble,
        "bookkeeperWriteQuorum": held.write_quorum if held else write,
        "bookkeeperAckQuorum": held.ack_quorum if held else ack,
        "managedLedgerMaxMarkDeleteRate": (
            held.mark_delete_rate if held else config.managed_ledger_default_mark_delete_rate_limit
        ),
    }


async def _set(row: TopicRow, call: Call) -> Answer:
    body: Any = call.query.get(row.query, bodies.ABSENT) if row.query else bodies.parse(call.body)
    if row.needs_body:
        bodies.present(body)
    name = await checked_topic(call)
    value = row.read(None if body is bodies.ABSENT else body)
    row.check(value)
    if row.path == "retention":
        quota = call.broker.service.policies.of(name).backlog_quotas.destination_storage
        if not policy_shapes.retention_exceeds_quota(value, {"limitSize": quota.limit}):
            raise Refusal(412, TOO_LITTLE_RETAINED)
    await _change(call, name, row, value)
    tell_if_without_effect(row, name.full, value)
    return NO_CONTENT


async def _remove(row: TopicRow, call: Call) -> Answer:
    await _change(call, await checked_topic(call), row, None)
    return NO_CONTENT


async def _change(call: Call, name: TopicName, row: TopicRow, value: Any) -> None:
    def change(policies: dict[str, Any]) -> None:
        if row.keys is None:
            put(policies, row.key, value)
            return
        for member, key in row.keys.items():
            put(policies, key, None if value is None else value[member])

    await change_policies(call, name, change)


def put(policies: dict[str, Any], key: str, value: Any) -> None:
    """Puts a policy into a topic's policies. A value of None removes the policy."""
    if value is None:
        policies.pop(key, None)
    else:
        policies[key] = value


def _routes_of(row: TopicRow) -> list[Route]:
    """Returns the calls that read, set and, if the policy is removable, remove the policy of a row."""
    path, write = f"{TOPIC}/{row.path}", topic_policy(row.name, write=True)
    routes = [
        Route("GET", path, partial(_get, row), topic_policy(row.name, write=False), Place.TOPIC),
        Route(row.method, path, partial(_set, row), write, Place.TOPIC),
    ]
    if row.removable:
        routes.append(Route("DELETE", path, partial(_remove, row), write, Place.TOPIC))
    return routes


# --- backlog quotas ---------------------------------------------------------------------------------------------------


async def backlog_quotas(call: Call) -> Answer:
    name = await checked_topic(call)
    policies = call.broker.service.policies
    held: dict[str, Any] = dict(own_policies(call, name).get("backLogQuotaMap") or {})
    if held or not call.flag("applied"):
        return held
    of_namespace = (await policies.namespaces.get(name.namespace) or {}).get("backlog_quota_map")
    return of_namespace or dict.fromkeys(QUOTA_TYPES, _quota(policies.of(name).backlog_quotas))


def _quota(quotas: BacklogQuotas) -> dict[str, Any]:
    """Returns the broker's default quota as Apache shows it: one object, shown for each type of quota, which holds the
    limits of both types (BacklogQuotaManager.getDefaultQuota)."""
    size = quotas.destination_storage.limit
    return {
        "limit": size,
        "limitSize": size,
        "limitTime": quotas.message_age.limit,
        "policy": quotas.destination_storage.policy,
    }


async def set_backlog_quota(call: Call) -> Answer:
    kind, body = quota_type(call), bodies.parse(call.body)
    name = await checked_topic(call)
    quota = policy_shapes.backlog_quota(None if body is bodies.ABSENT else body, namespace_of(call))

    def change(policies: dict[str, Any]) -> None:
        if not policy_shapes.retention_exceeds_quota(policies.get("retentionPolicies"), quota):
            raise Refusal(412, TOO_LITTLE_RETAINED)
        policies["backLogQuotaMap"] = {**(policies.get("backLogQuotaMap") or {}), kind: quota}

    await change_policies(call, name, change)
    return NO_CONTENT


async def remove_backlog_quota(call: Call) -> Answer:
    kind, name = quota_type(call), await checked_topic(call)

    def change(policies: dict[str, Any]) -> None:
        quotas = policies.get("backLogQuotaMap") or {}
        policies["backLogQuotaMap"] = {each: quota for each, quota in quotas.items() if each != kind}

    await change_policies(call, name, change)
    return NO_CONTENT


# --- the dispatch rate of one subscription ----------------------------------------------------------------------------

_DISPATCH_RATE = next(row for row in TOPIC_ROWS if row.path == "dispatchRate")


async def subscription_rate(call: Call) -> Answer:
    name = await checked_topic(call)
    policies = call.broker.service.policies
    held = own_policies(call, name).get("subscriptionPolicies") or {}
    value = (held.get(call.parts["subscription"]) or {}).get("dispatchRate")
    if value is None and call.flag("applied"):
        return shown_dispatch_rate(policies.of(name).dispatch_rate_of(call.parts["subscription"]))
    return EMPTY if value is None else value


async def set_subscription_rate(call: Call) -> Answer:
    name, body = await checked_topic(call), bodies.parse(call.body)
    await _change_subscription_rate(call, name, _DISPATCH_RATE.read(None if body is bodies.ABSENT else body))
    return NO_CONTENT


async def remove_subscription_rate(call: Call) -> Answer:
    await _change_subscription_rate(call, await checked_topic(call), None)
    return NO_CONTENT


async def _change_subscription_rate(call: Call, name: TopicName, rate: Any) -> None:
    subscription = call.parts["subscription"]

    def change(policies: dict[str, Any]) -> None:
        held = {key: each for key, each in (policies.get("subscriptionPolicies") or {}).items() if key != subscription}
        if rate is not None:
            held[subscription] = {"dispatchRate": rate}
        policies["subscriptionPolicies"] = held

    await change_policies(call, name, change)


# --- replication, and removing all policies ---------------------------------------------------------------------------


async def replication(call: Call) -> Answer:
    name = await checked_topic(call)
    policies = call.broker.service.policies
    clusters = own_policies(call, name).get("replicationClusters")
    if clusters is None and call.flag("applied"):
        clusters = (await policies.namespaces.get(name.namespace) or {}).get("replication_clusters")
    return EMPTY if clusters is None else clusters


async def set_replication(call: Call) -> Answer:
    clusters = bodies.strings(bodies.present(bodies.parse(call.body)))
    name = await checked_topic(call)
    if not clusters:
        raise Refusal(412, "ClusterIds should not be null or empty")
    if call.broker.cluster not in clusters:
        raise Refusal(412, "Can not remove local cluster from the local topic-level replication clusters policy")

    def change(policies: dict[str, Any]) -> None:
        policies["replicationClusters"] = clusters

    await change_policies(call, name, change)
    return NO_CONTENT


async def remove_replication(call: Call) -> Answer:
    name = await checked_topic(call)
    await change_policies(call, name, lambda policies: put(policies, "replicationClusters", None))
    return NO_CONTENT


async def remove_all(call: Call) -> Answer:
    await call.broker.service.policies.topics.delete(await checked_topic(call))
    return NO_CONTENT


def _of(path: str, name: str, get: Any, put_with: Any, remove: Any) -> list[Route]:
    write = topic_policy(name, write=True)
    return [
        Route("GET", f"{TOPIC}/{path}", get, topic_policy(name, write=False), Place.TOPIC),
        Route("POST", f"{TOPIC}/{path}", put_with, write, Place.TOPIC),
        Route("DELETE", f"{TOPIC}/{path}", remove, write, Place.TOPIC),
    ]


ROUTES = (
    *(route for row in TOPIC_ROWS for route in _routes_of(row)),
    Route("GET", f"{TOPIC}/backlogQuotaMap", backlog_quotas, topic_policy("BACKLOG", write=False), Place.TOPIC),
    Route("POST", f"{TOPIC}/backlogQuota", set_backlog_quota, topic_policy("BACKLOG", write=True), Place.TOPIC),
    Route("DELETE", f"{TOPIC}/backlogQuota", remove_backlog_quota, topic_policy("BACKLOG", write=True), Place.TOPIC),
    *_of("{subscription}/dispatchRate", "RATE", subscription_rate, set_subscription_rate, remove_subscription_rate),
    *_of("replication", "REPLICATION", replication, set_replication, remove_replication),
    Route("DELETE", f"{TOPIC}/policies", remove_all, topic_policy("ALL", write=True), Place.TOPIC),
)
