"""How superuser roles, administrators and grants decide together."""

from collections.abc import Mapping
from typing import Any

import pytest

from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.authorizer import Authorizer, TenantMissingError
from magnetar.server.security.demands import (
    Demand,
    OnNamespace,
    OnNamespacePolicy,
    OnTopic,
    OnTopicPolicy,
    Open,
    Superuser,
    TenantAdmin,
)
from magnetar.server.security.operations import NamespaceOperation, TopicOperation
from magnetar.server.security.principals import Principal, combination_fault
from pulsar_proto.names import TopicName

TOPIC = TopicName.parse("persistent://acme/orders/t")
EVERY_KIND: list[Demand] = [
    Superuser(),
    TenantAdmin("LIST_NAMESPACES"),
    OnNamespace(NamespaceOperation.CREATE_TOPIC),
    OnNamespace(NamespaceOperation.GET_TOPICS),
    OnNamespacePolicy("RETENTION"),
    OnTopicPolicy("RETENTION"),
    OnTopic(TopicOperation.PRODUCE),
    OnTopic(TopicOperation.CONSUME),
    OnTopic(TopicOperation.TERMINATE),
]


class Records:
    """Tenants and namespaces in memory."""

    def __init__(self) -> None:
        self.tenants: dict[str, Mapping[str, Any]] = {"acme": {"adminRoles": ["boss"]}, "odd": {"adminRoles": "boss"}}
        self.namespaces: dict[str, Mapping[str, Any]] = {}
        self.grant(alice=["produce"])

    def grant(self, **roles: list[str]) -> None:
        self.namespaces["acme/orders"] = {"auth_policies": {"namespace_auth": roles}}

    async def tenant(self, name: str) -> Mapping[str, Any] | None:
        return self.tenants.get(name)

    async def namespace(self, name: str) -> Mapping[str, Any] | None:
        return self.namespaces.get(name)


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def authorizer(records: Records) -> Authorizer:
    settings = SecuritySettings(super_user_roles=("root", "proxy"))
    return Authorizer(settings, records.tenant, records.namespace)


async def allowed(authorizer: Authorizer, role: str, demand: Demand, original: str = "") -> bool:
    denied = await authorizer.denied(
        Principal(role, original), demand, tenant="acme", namespace="acme/orders", topic=TOPIC
    )
    return denied is None


async def test_a_superuser_may_everything_and_a_stranger_nothing(authorizer: Authorizer) -> None:
    for demand in EVERY_KIND:
        assert await allowed(authorizer, "root", demand)
        assert not await allowed(authorizer, "stranger", demand)
    assert await allowed(authorizer, "stranger", Open("a test"))


async def test_an_administrator_may_everything_in_the_tenant(authorizer: Authorizer) -> None:
    assert [await allowed(authorizer, "boss", demand) for demand in EVERY_KIND] == [False, *[True] * 8]


async def test_a_grant_is_for_what_it_says(authorizer: Authorizer) -> None:
    may = [demand for demand in EVERY_KIND if await allowed(authorizer, "alice", demand)]
    assert may == [OnNamespace(NamespaceOperation.GET_TOPICS), OnTopic(TopicOperation.PRODUCE)]


async def test_who_may_produce_may_not_write_topic_policies(authorizer: Authorizer) -> None:
    events = TopicName.parse("persistent://acme/orders/__change_events")
    for role, may in (("alice", False), ("boss", True), ("root", True)):
        denied = await authorizer.denied(
            Principal(role), OnTopic(TopicOperation.PRODUCE), tenant="acme", namespace="acme/orders", topic=events
        )
        assert (denied is None) is may


async def test_a_change_of_the_grants_holds_at_once(authorizer: Authorizer, records: Records) -> None:
    demand = OnTopic(TopicOperation.CONSUME)
    assert not await allowed(authorizer, "alice", demand)
    records.grant(alice=["consume"])
    assert await allowed(authorizer, "alice", demand)
    records.grant()
    assert not await allowed(authorizer, "alice", demand)


async def test_behind_a_proxy_both_roles_must_be_allowed(authorizer: Authorizer) -> None:
    demand = OnTopic(TopicOperation.PRODUCE)
    assert await allowed(authorizer, "proxy", demand, original="alice")
    assert not await allowed(authorizer, "proxy", demand, original="stranger")
    assert not await allowed(authorizer, "stranger", demand, original="alice")


async def test_a_namespace_that_does_not_exist_grants_nothing_and_a_tenant_is_said_to_be_missing(
    authorizer: Authorizer, records: Records
) -> None:
    demand = OnTopic(TopicOperation.PRODUCE)
    del records.namespaces["acme/orders"]
    assert not await allowed(authorizer, "alice", demand)
    assert await allowed(authorizer, "boss", demand)
    del records.tenants["acme"]
    with pytest.raises(TenantMissingError):
        await allowed(authorizer, "alice", demand)
    assert await allowed(authorizer, "root", demand)


async def test_a_tenant_of_an_odd_shape_has_no_administrators(authorizer: Authorizer) -> None:
    assert await authorizer.denied(Principal("boss"), TenantAdmin(""), tenant="odd") is not None
    assert await authorizer.denied(Principal("b"), TenantAdmin(""), tenant="odd") is not None


@pytest.mark.parametrize(
    ("role", "original", "may_repeat", "fault"),
    [
        ("alice", "", False, None),
        ("alice", "alice", False, "without valid proxy role"),
        ("alice", "alice", True, None),
        ("alice", "bob", True, "without valid proxy role"),
        ("proxy", "alice", False, None),
        ("proxy", "", False, "must be provided"),
        ("proxy", "  ", False, "must be provided"),
        ("proxy", "proxy2", False, "cannot be a proxy role"),
    ],
)
def test_a_proxy_names_its_client_and_nobody_else_names_anybody(
    role: str, original: str, may_repeat: bool, fault: str | None
) -> None:
    found = combination_fault(role, original, frozenset({"proxy", "proxy2"}), may_repeat=may_repeat)
    assert (found is None) == (fault is None)
    assert fault is None or fault in (found or "")
