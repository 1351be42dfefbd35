"""What the grants of a namespace allow: compared with a slow twin of the rules, and case by case."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.security.operations import AuthAction, NamespaceOperation, TopicOperation
from magnetar.server.security.permission_rules import NamespacePermissions, matches_wildcard
from pulsar_proto.names import TopicName

TOPIC = TopicName.parse("persistent://public/default/t")
PARTITION = TOPIC.partition(3)
OTHER = TopicName.parse("persistent://public/default/other")

ROLES = st.sampled_from(["alice", "bob", "al*", "*ce", "*", ""])
ACTIONS = st.lists(st.sampled_from([action.value for action in AuthAction]), max_size=3)
GRANTS = st.dictionaries(ROLES, ACTIONS, max_size=3)
TOPICS = st.sampled_from([TOPIC, PARTITION, OTHER])


def permissions(**auth: Any) -> NamespacePermissions:
    mode = auth.pop("mode", None)
    return NamespacePermissions.of_policies({"auth_policies": auth, "subscription_auth_mode": mode})


def twin(
    namespace: dict[str, list[str]],
    topics: dict[str, dict[str, list[str]]],
    role: str,
    action: str,
    topic: TopicName,
    wildcards: bool,
) -> bool:
    """The slow twin: PulsarAuthorizationProvider.checkPermission, step by step."""
    for grants in (namespace, topics.get(topic.full, {})):
        for pattern, actions in grants.items():
            if action not in actions:
                continue
            if pattern == role:
                return True
            if wildcards and pattern[-1:] == "*" and role[: len(pattern) - 1] == pattern[:-1]:
                return True
            if wildcards and pattern[:1] == "*" and role.endswith(pattern[1:]):
                return True
    if topic.full.endswith("-partition-3"):
        return action in topics.get(topic.full.removesuffix("-partition-3"), {}).get(role, [])
    return False


@given(GRANTS, st.dictionaries(TOPICS.map(lambda topic: topic.full), GRANTS, max_size=3), TOPICS, st.booleans())
def test_grants_count_as_in_apaches_provider(
    namespace: dict[str, list[str]], topics: dict[str, dict[str, list[str]]], topic: TopicName, wildcards: bool
) -> None:
    granted = permissions(namespace_auth=namespace, destination_auth=topics)
    for role in ("alice", "bob"):
        produce = twin(namespace, topics, role, "produce", topic, wildcards)
        consume = twin(namespace, topics, role, "consume", topic, wildcards)
        expected = {
            TopicOperation.PRODUCE: produce,
            TopicOperation.CONSUME: consume,
            TopicOperation.LOOKUP: produce or consume,
            TopicOperation.SKIP: consume,
            TopicOperation.TERMINATE: False,
        }
        for operation, allowed in expected.items():
            assert granted.allows_on_topic(role, operation, topic, None, wildcards=wildcards) is allowed


@pytest.mark.parametrize("operation", TopicOperation)
def test_every_topic_operation_takes_the_grant_that_it_takes_in_apache(operation: TopicOperation) -> None:
    administrators = ("TERMINATE", "COMPACT", "OFFLOAD", "UNLOAD", "TRIM_TOPIC", "DELETE_METADATA", "UPDATE_METADATA")
    either = ("LOOKUP", "GET_STATS", "GET_METADATA")
    expected = {AuthAction.CONSUME}
    if operation.name in (*administrators, "GET_BUNDLE_RANGE"):
        expected = set()
    elif operation.name in either:
        expected = {AuthAction.PRODUCE, AuthAction.CONSUME}
    elif operation.name == "PRODUCE":
        expected = {AuthAction.PRODUCE}
    assert operation.grants == expected


def test_every_namespace_operation_takes_the_grant_that_it_takes_in_apache() -> None:
    granted = permissions(namespace_auth={"c": ["consume"], "p": ["produce"], "k": ["packages"], "f": ["functions"]})
    allowed = {
        operation.name: {role for role in "cpkf" if granted.allows_on_namespace(role, operation, wildcards=False)}
        for operation in NamespaceOperation
    }
    for name in ("GET_TOPIC", "GET_TOPICS", "GET_BUNDLE"):
        assert allowed.pop(name) == {"c", "p"}
    for name in ("UNSUBSCRIBE", "TRIM_TOPIC", "CLEAR_BACKLOG"):
        assert allowed.pop(name) == {"c"}
    assert allowed.pop("PACKAGES") == {"k"}
    assert not any(allowed.values())


def test_a_subscription_with_roles_is_for_them_only() -> None:
    granted = permissions(
        namespace_auth={"alice": ["consume"], "bob": ["consume"]}, subscription_auth_roles={"s": ["alice"], "e": []}
    )

    def may(role: str, subscription: str | None) -> bool:
        return granted.allows_on_topic(role, TopicOperation.CONSUME, TOPIC, subscription, wildcards=False)

    assert (may("alice", "s"), may("bob", "s")) == (True, False)
    assert may("bob", "e"), "an empty list restricts nobody"
    assert may("bob", "other")
    assert may("bob", None)
    assert "bob is not authorized" in (granted.fault_of_subscription("bob", TOPIC, "s") or "")


def test_in_prefix_mode_a_subscription_begins_with_the_role() -> None:
    granted = permissions(namespace_auth={"alice": ["consume"]}, mode="Prefix")
    assert granted.allows_on_topic("alice", TopicOperation.CONSUME, TOPIC, "alice-1", wildcards=False)
    assert not granted.allows_on_topic("alice", TopicOperation.CONSUME, TOPIC, "1-alice", wildcards=False)
    assert "needs to be prefixed by the authentication role, like alice-xxxx" in (
        granted.fault_of_subscription("alice", TOPIC, "1-alice") or ""
    )


def test_a_role_that_may_only_produce_may_look_up_whatever_the_subscriptions_say() -> None:
    granted = permissions(namespace_auth={"p": ["produce"]}, mode="Prefix")
    assert granted.allows_on_topic("p", TopicOperation.LOOKUP, TOPIC, None, wildcards=False)


@pytest.mark.parametrize(
    "policies",
    [
        {},
        {"auth_policies": None},
        {"auth_policies": []},
        {"auth_policies": {"namespace_auth": None, "destination_auth": 7, "subscription_auth_roles": "x"}},
        {"auth_policies": {"namespace_auth": {"a": None, "b": "produce", "c": [None, 7]}}},
        {"auth_policies": {"destination_auth": {TOPIC.full: None, OTHER.full: {"a": 1}}}},
    ],
)
def test_what_has_another_shape_grants_nothing(policies: dict[str, Any]) -> None:
    granted = NamespacePermissions.of_policies(policies)
    for role in "abc":
        for topic in (TOPIC, OTHER):
            assert not granted.allows_on_topic(role, TopicOperation.LOOKUP, topic, "s", wildcards=True)


@pytest.mark.parametrize(
    ("role", "pattern", "matches"),
    [
        ("alice", "al*", True),
        ("alice", "*ce", True),
        ("alice", "*", True),
        ("alice", "a*e", False),
        ("alice", "", False),
    ],
)
def test_a_star_at_either_end(role: str, pattern: str, matches: bool) -> None:
    assert matches_wildcard(role, pattern) is matches
