"""The calls on offloading, which moves ledgers to other storage. This broker does not offload.

The policies of offloading are stored and shown without effect, the status is always that no offloading has run, and a
call that starts offloading is refused. An Apache broker without an offloader answers that the offloading has started,
and reports the failure only in the status.

Sources: NamespacesBase (internalSetOffloadPolicies, validateOffloadPolicies), OffloadPoliciesImpl,
PersistentTopicsBase.internalTriggerOffload, internalOffloadStatus; answers recorded from Pulsar 4.0.7.
"""

import logging
from collections.abc import Mapping
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import NAMESPACES, TOPIC, namespace_of, topic_of
from magnetar.server.admin.namespace_policy_calls import change_record, record_of
from magnetar.server.admin.offload_policies import KEY, KEY_OF_TOPIC, OF_OLDER_POLICIES, as_shown, read
from magnetar.server.admin.policy_rows import NOTHING_OFFLOADED
from magnetar.server.admin.topic_calls import loaded, message_id, partitions_of
from magnetar.server.admin.topic_policy_calls import change_policies, checked_topic, own_policies, put
from magnetar.server.topics.topic import Topic
from magnetar.server.web.absent_calls import NO_OFFLOADING
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import namespace_policy, topic, topic_policy
from magnetar.server.web.places import Place
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.ids import EARLIEST

log = logging.getLogger(__name__)


async def status(call: Call) -> Answer:
    await _loaded(call)
    return {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": message_id(EARLIEST, -1)}


async def trigger(call: Call) -> Answer:
    await _loaded(call)
    raise Refusal(503, NO_OFFLOADING)


async def _loaded(call: Call) -> Topic:
    name = topic_of(call)
    if not name.is_persistent or await partitions_of(call, name):
        raise TopicNotFound(f"Topic {name.full} not found")
    return await loaded(call)


# --- policies ---------------------------------------------------------------------------------------------------------


async def of_namespace(call: Call) -> Answer:
    held = (await record_of(call)).get(KEY)
    return EMPTY if held is None else as_shown(held)


async def set_of_namespace(call: Call) -> Answer:
    """Sets the policies of offloading, and the namespace's older policies with the same meaning
    (`offload_policies.OF_OLDER_POLICIES`)."""
    policies = read(bodies.parse(call.body))

    def change(record: dict[str, Any]) -> None:
        record[KEY] = policies
        record.update({old: policies[new] for old, new in OF_OLDER_POLICIES.items() if new in policies})

    await change_record(call, change)
    _tell(namespace_of(call))
    return NO_CONTENT


async def remove_of_namespace(call: Call) -> Answer:
    await change_record(call, lambda record: record.pop(KEY, None))
    return NO_CONTENT


async def of_topic(call: Call) -> Answer:
    """Answers with the topic's policies of offloading. With the parameter `applied`, policies that the topic does not
    set are taken from its namespace; if the merged policies name no driver, the answer is empty."""
    name, policies = await checked_topic(call), call.broker.service.policies
    held: Mapping[str, Any] | None = own_policies(call, name).get(KEY_OF_TOPIC)
    if call.flag("applied"):
        of_namespace = (await policies.namespaces.get(name.namespace) or {}).get(KEY)
        merged = {**(of_namespace or {}), **(held or {})}
        held = merged if merged.get("managedLedgerOffloadDriver") else None
    return EMPTY if held is None else as_shown(held)


async def set_of_topic(call: Call) -> Answer:
    given, name = read(bodies.parse(call.body)), await checked_topic(call)
    await change_policies(call, name, lambda policies: put(policies, KEY_OF_TOPIC, given))
    _tell(name.full)
    return NO_CONTENT


async def remove_of_topic(call: Call) -> Answer:
    name = await checked_topic(call)
    await change_policies(call, name, lambda policies: put(policies, KEY_OF_TOPIC, None))
    return NO_CONTENT


def _tell(whose: str) -> None:
    log.warning("%s: policy without effect in this version: offloadPolicies: %s", whose, NOTHING_OFFLOADED)


OF_NAMESPACE = f"{NAMESPACES}/offloadPolicies"
OF_TOPIC = f"{TOPIC}/offloadPolicies"

ROUTES = (
    Route("GET", f"{TOPIC}/offload", status, topic("OFFLOAD"), Place.TOPIC),
    Route("PUT", f"{TOPIC}/offload", trigger, topic("OFFLOAD"), Place.TOPIC),
    Route("GET", OF_NAMESPACE, of_namespace, namespace_policy("OFFLOAD", write=False), Place.ANY_BROKER),
    Route("POST", OF_NAMESPACE, set_of_namespace, namespace_policy("OFFLOAD", write=True), Place.ANY_BROKER),
    Route(
        "DELETE",
        f"{NAMESPACES}/removeOffloadPolicies",
        remove_of_namespace,
        namespace_policy("OFFLOAD", write=True),
        Place.ANY_BROKER,
    ),
    Route("GET", OF_TOPIC, of_topic, topic_policy("OFFLOAD", write=False), Place.TOPIC),
    Route("POST", OF_TOPIC, set_of_topic, topic_policy("OFFLOAD", write=True), Place.TOPIC),
    Route("DELETE", OF_TOPIC, remove_of_topic, topic_policy("OFFLOAD", write=True), Place.TOPIC),
)
