"""The permissions of roles in a namespace, on a topic and on a subscription.

A call that grants an action which does not exist is refused; Apache's broker stores null for such an action. Sources:
NamespacesBase.internalGrantPermissionOnNamespaceAsync, PersistentTopicsBase.internalGrantPermissionsOnTopic; answers
recorded from Pulsar 4.0.7.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import NAMESPACES, TOPIC, topic_of
from magnetar.server.admin.namespace_policy_calls import change_record, record_of
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER, TENANT_ADMIN, namespace
from magnetar.server.web.places import Place
from pulsar_proto.names import TopicName

ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
MISSING = "Topic's namespace does not exist"

Auth = dict[str, Any]
"""The `auth_policies` in the record of a namespace."""


async def of_namespace(call: Call) -> Answer:
    return _auth(await record_of(call))["namespace_auth"]


async def grant_on_namespace(call: Call) -> Answer:
    actions = _actions(call)

    def change(auth: Auth) -> None:
        auth["namespace_auth"][call.parts["role"]] = actions

    await _change(call, change)
    return NO_CONTENT


async def revoke_on_namespace(call: Call) -> Answer:
    def change(auth: Auth) -> None:
        auth["namespace_auth"].pop(call.parts["role"], None)

    await _change(call, change)
    return NO_CONTENT


async def of_topic(call: Call) -> Answer:
    """Answers with the permissions in the namespace and on the topic. For a role that has permissions in both, only
    those on the topic are shown."""
    name = topic_of(call)
    await _check_topic(call)
    auth = _auth(await record_of(call))
    return {**auth["namespace_auth"], **(auth["destination_auth"].get(name.full) or {})}


async def grant_on_topic(call: Call) -> Answer:
    """Grants actions on a topic. Permissions on a partitioned topic hold for its partitions."""
    name, actions = topic_of(call), _actions(call)
    await _check_topic(call)

    def change(auth: Auth) -> None:
        auth["destination_auth"].setdefault(name.full, {})[call.parts["role"]] = actions

    await _change(call, change)
    return NO_CONTENT


async def grant_on_topics(call: Call) -> Answer:
    """Grants each `{topic, role, actions}` that the body lists; the topics may be of any namespaces. The first fault
    ends the call, and the grants before it stay."""
    for each, given in _calls_of(call):
        each.body = json.dumps(given.get("actions")).encode()
        await grant_on_topic(each)
    return NO_CONTENT


async def revoke_on_topics(call: Call) -> Answer:
    """Revokes the permissions of each `{topic, role}` that the body lists. The first fault ends the call, and
    permissions that were revoked before stay revoked."""
    for each, _ in _calls_of(call):
        await revoke_on_topic(each)
    return NO_CONTENT


def _calls_of(call: Call) -> list[tuple[Call, dict[str, Any]]]:
    """Returns, for each member of the body, a call on the member's topic and role, and the member itself. Raises
    InvalidTopicName, Refusal 400."""
    members = bodies.present(bodies.parse(call.body))
    if not isinstance(members, list):
        raise Refusal(400, "the body must be a list of objects")
    calls = []
    for member in members:
        given = bodies.obj(member, "a member of the body")
        name = TopicName.parse(bodies.text(given.get("topic"), "topic"))
        parts = {"domain": name.domain, "tenant": name.tenant, "namespace": name.namespace_name}
        parts |= {"topic": name.local_name, "role": bodies.text(given.get("role"), "role")}
        calls.append((replace(call, parts=parts), given))
    return calls


async def revoke_on_topic(call: Call) -> Answer:
    name = topic_of(call)
    await _check_topic(call)

    def change(auth: Auth) -> None:
        roles = auth["destination_auth"].get(name.full) or {}
        roles.pop(call.parts["role"], None)
        if not roles:
            auth["destination_auth"].pop(name.full, None)

    await _change(call, change)
    return NO_CONTENT


async def of_subscriptions(call: Call) -> Answer:
    return _auth(await record_of(call))["subscription_auth_roles"]


async def grant_on_subscription(call: Call) -> Answer:
    roles = bodies.strings(bodies.present(bodies.parse(call.body)))

    def change(auth: Auth) -> None:
        auth["subscription_auth_roles"][call.parts["subscription"]] = roles

    await _change(call, change)
    return NO_CONTENT


async def revoke_on_subscription(call: Call) -> Answer:
    subscription, role = call.parts["subscription"], call.parts["role"]

    def change(auth: Auth) -> None:
        granted = auth["subscription_auth_roles"]
        left = [each for each in granted.get(subscription) or () if each != role]
        granted.pop(subscription, None)
        if left:
            granted[subscription] = left

    await _change(call, change)
    return NO_CONTENT


async def _check_topic(call: Call) -> None:
    """Raises TopicNotFound when the call's namespace does not exist, and Refusal 404 when the call's topic does not
    exist."""
    name, catalog = topic_of(call), call.broker.service.catalog
    await catalog.check_namespace(name.namespace)
    if await catalog.partitioned.get(name) is None and not await catalog.topic_exists(name):
        raise Refusal(404, f"Topic {name.full} not found")


def _actions(call: Call) -> list[str]:
    return bodies.some_of(bodies.present(bodies.parse(call.body)), ACTIONS)


def _auth(record: dict[str, Any]) -> Auth:
    """Returns a copy of the permissions in a namespace's record, in which every part exists and may be changed."""
    auth = record.get("auth_policies") or {}
    parts = {
        key: dict(auth.get(key) or {}) for key in ("namespace_auth", "destination_auth", "subscription_auth_roles")
    }
    parts["destination_auth"] = {topic: dict(roles or {}) for topic, roles in parts["destination_auth"].items()}
    return {**auth, **parts}


async def _change(call: Call, change: Callable[[Auth], None]) -> None:
    def change_auth(record: dict[str, Any]) -> None:
        auth = _auth(record)
        change(auth)
        record["auth_policies"] = auth

    await change_record(call, change_auth, MISSING)


_GET, _GRANT, _REVOKE = namespace("GET_PERMISSION"), namespace("GRANT_PERMISSION"), namespace("REVOKE_PERMISSION")

ROUTES = (
    Route("GET", f"{NAMESPACES}/permissions", of_namespace, _GET, Place.ANY_BROKER),
    Route("POST", f"{NAMESPACES}/permissions/{{role}}", grant_on_namespace, _GRANT, Place.ANY_BROKER),
    Route("DELETE", f"{NAMESPACES}/permissions/{{role}}", revoke_on_namespace, _REVOKE, Place.ANY_BROKER),
    Route("GET", f"{NAMESPACES}/permissions/subscription", of_subscriptions, _GET, Place.ANY_BROKER),
    Route(
        "POST",
        f"{NAMESPACES}/permissions/subscription/{{subscription}}",
        grant_on_subscription,
        _GRANT,
        Place.ANY_BROKER,
    ),
    Route(
        "DELETE",
        f"{NAMESPACES}/permissions/{{subscription}}/{{role}}",
        revoke_on_subscription,
        _REVOKE,
        Place.ANY_BROKER,
    ),
    Route("GET", f"{TOPIC}/permissions", of_topic, TENANT_ADMIN, Place.ANY_BROKER),
    Route("POST", f"{TOPIC}/permissions/{{role}}", grant_on_topic, TENANT_ADMIN, Place.ANY_BROKER),
    Route("DELETE", f"{TOPIC}/permissions/{{role}}", revoke_on_topic, TENANT_ADMIN, Place.ANY_BROKER),
    # Apache lets an administrator of the topics' tenants make these calls. Here only superusers may, because only the
    # body names the topics, and the body is not read before the caller is authorized.
    Route("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", grant_on_topics, SUPERUSER, Place.ANY_BROKER),
    Route("POST", "/admin/v2/namespaces/revokePermissionsOnTopics", revoke_on_topics, SUPERUSER, Place.ANY_BROKER),
)
