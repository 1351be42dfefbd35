"""The call that says for each policy of a topic which value holds, and where that value was set: for the topic, for its
namespace, or in broker.conf. Only Magnetar has it."""

from collections.abc import Mapping
from typing import Any

from magnetar.server.admin.call_paths import TOPIC
from magnetar.server.admin.policy_rows import NAMESPACE_ROWS, TOPIC_ROWS, NamespaceRow, TopicRow
from magnetar.server.admin.topic_policy_calls import applied_persistence, checked_topic
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import BacklogQuotas
from magnetar.server.web.calls import Answer, Call, Route, Status
from magnetar.server.web.needs import topic_policy
from magnetar.server.web.places import Place

NAMESPACE_PATHS = {
    "deduplicationEnabled": "deduplication",
    "maxProducers": "maxProducersPerTopic",
    "maxConsumers": "maxConsumersPerTopic",
    "maxUnackedMessagesOnConsumer": "maxUnackedMessagesPerConsumer",
    "maxUnackedMessagesOnSubscription": "maxUnackedMessagesPerSubscription",
}
"""The paths of topics' policies whose namespaces' policies have another path."""

FIELDS = {
    "deduplicationSnapshotInterval": "deduplication_snapshot_interval_seconds",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "maxMessageSize": "max_message_size",
}
"""The fields of EffectivePolicies that hold the policies whose calls do not know the parameter `applied`."""

QUOTAS = {"destination_storage": "limitSize", "message_age": "limitTime"}
"""The types of backlog quota, each with the member that holds its limit."""

_NAMESPACE_ROWS = {row.path: row for row in NAMESPACE_ROWS}


async def sources(call: Call) -> Answer:
    """Answers with a row for each policy: `policy`, `value` that holds, `source` (topic, namespace or broker), `set`
    (the values of topic and namespace, where they are set), and the call that sets it for the topic: `method`, `path`,
    `query` (the parameter with the value; "" for the body), `removable`."""
    name = await checked_topic(call)
    policies = call.broker.service.policies
    own = policies.topics.merged(name)
    record = await policies.namespaces.get(name.namespace) or {}
    base = call.target.partition("?")[0].removesuffix("/policySources")  # as the caller wrote it, percent-encoded
    held, of_broker = policies.of(name), policies.of_broker
    rows: list[dict[str, Any]] = []
    for row in TOPIC_ROWS:
        levels = {
            "topic": _of_topic(row, own),
            "namespace": _of_namespace(_NAMESPACE_ROWS.get(NAMESPACE_PATHS.get(row.path, row.path)), record, call),
        }
        value = applied_persistence(call, name) if row.path == "persistence" else _applied(row, held)
        told = _told(row.path, value, levels, row.path != "persistence", _applied(row, of_broker))
        rows.append(
            told | {"method": row.method, "path": f"{base}/{row.path}", "query": row.query, "removable": row.removable}
        )
    for kind, member in QUOTAS.items():
        levels = {
            "topic": (own.get("backLogQuotaMap") or {}).get(kind),
            "namespace": (record.get("backlog_quota_map") or {}).get(kind),
        }
        value, of_conf = (_quota(each.backlog_quotas, kind, member) for each in (held, of_broker))
        told = _told(f"backlogQuota {kind}", value, levels, True, of_conf)
        path = f"{base}/backlogQuota?backlogQuotaType={kind}"
        rows.append(told | {"method": "POST", "path": path, "query": "", "removable": True})
    return rows


def _told(policy: str, value: Any, levels: Mapping[str, Any], has_default: bool, of_broker: Any) -> dict[str, Any]:
    given = {level: each for level, each in levels.items() if each is not None}
    source = next(iter(given), "broker")
    told = {"policy": policy, "value": value, "source": source, "set": given}
    if has_default:
        given["broker"] = of_broker
    return told


def _of_topic(row: TopicRow, own: Mapping[str, Any]) -> Any:
    if row.keys is None:
        return own.get(row.key) or None if row.absent == [] else own.get(row.key)
    values = {member: own[key] for member, key in row.keys.items() if own.get(key) is not None}
    return values or None


def _of_namespace(row: NamespaceRow | None, record: Mapping[str, Any], call: Call) -> Any:
    if row is None:
        return None
    value = record.get(row.key)
    if row.per_cluster and value is not None:
        value = value.get(call.broker.cluster)
    return None if value == row.unset else value


def _applied(row: TopicRow, policies: EffectivePolicies) -> Any:
    if row.applied is not None:
        answer = row.applied(policies)
        return answer.value if isinstance(answer, Status) else answer
    return getattr(policies, FIELDS[row.path]) if row.path in FIELDS else None


def _quota(quotas: BacklogQuotas, kind: str, member: str) -> dict[str, Any]:
    quota = getattr(quotas, kind)
    return {member: quota.limit, "policy": quota.policy}


ROUTES = (Route("GET", f"{TOPIC}/policySources", sources, topic_policy("ALL", write=False), Place.TOPIC),)
