"""When permissions change, clients that have lost theirs are disconnected and all others stay."""

import asyncio
from collections.abc import Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from magnetar.metadata.errors import MetadataError
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.authorizer import Authorizer
from magnetar.server.security.principals import Principal
from magnetar.server.upkeep.permission_recheck import PermissionRecheck
from pulsar_proto.names import TopicName


class Client:
    """Stands for a producer or a consumer of a role."""

    def __init__(self, role: str | None) -> None:
        self.told_closed: list[int] = []
        """The ids in the CLOSE_CONSUMER commands that this client got."""
        self.cnx = SimpleNamespace(close_consumer=self.told_closed.append)
        if role is not None:
            self.cnx.principal = Principal(role)
        self.consumer_id = 1
        self.is_closed = False

    def disconnect(self) -> None:
        self.is_closed = True

    close = disconnect


class Scene:
    """Topics in two namespaces, each with one producer and one consumer of each role."""

    def __init__(self) -> None:
        self.record: Mapping[str, Any] = {}
        self.fault: MetadataError | None = None
        self.judged = 0
        self.here = self.topic("persistent://acme/orders/t")
        self.elsewhere = self.topic("persistent://acme/other/t")
        service: Any = SimpleNamespace(all_topics=[self.here, self.elsewhere])
        settings = SecuritySettings(super_user_roles=("root",))
        self.recheck = PermissionRecheck(Authorizer(settings, self.tenant, self.namespace), service, self.spawn)
        self.tasks: list[asyncio.Task[None]] = []

    def topic(self, name: str) -> Any:
        roles = ("alice", "bob", "root", "boss", None)
        producers = {str(role): Client(role) for role in roles}
        subscription = SimpleNamespace(name="s", consumers=[Client(role) for role in roles])
        return SimpleNamespace(name=TopicName.parse(name), producers=producers, subscriptions={"s": subscription})

    async def tenant(self, name: str) -> Mapping[str, Any]:
        return {"adminRoles": ["boss"]}

    async def namespace(self, name: str) -> Mapping[str, Any]:
        self.judged += 1
        if self.fault is not None:
            raise self.fault
        return self.record

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def grant(self, times: int = 1, **roles: list[str]) -> None:
        self.record = {"auth_policies": {"namespace_auth": roles}}
        for _ in range(times):
            self.recheck.namespace_changed("acme/orders")
        await asyncio.gather(*self.tasks)

    def consumers(self, topic: Any) -> list[Client]:
        return list(topic.subscriptions["s"].consumers)

    def connected(self, topic: Any) -> tuple[set[str], set[str]]:
        """Returns the roles of the connected producers and of the connected consumers."""
        roles = ("alice", "bob", "root", "boss", "None")
        producers = {role for role, producer in topic.producers.items() if not producer.is_closed}
        consumers = self.consumers(topic)
        return producers, {role for role, each in zip(roles, consumers, strict=True) if not each.is_closed}


ALWAYS = {"root", "boss", "None"}


async def test_the_client_of_a_consumer_that_may_no_longer_is_told_once() -> None:
    scene = Scene()
    await scene.grant(alice=["consume"], bob=["consume"])
    await scene.grant(alice=["consume"])
    await scene.grant(alice=["consume"])
    told = {each.told_closed == [each.consumer_id] for each in scene.consumers(scene.here) if each.is_closed}
    assert told == {True}
    assert not any(each.told_closed for each in scene.consumers(scene.here) if not each.is_closed)


async def test_who_may_no_longer_is_disconnected_there_and_nowhere_else() -> None:
    scene = Scene()
    await scene.grant(alice=["produce", "consume"], bob=["produce", "consume"])
    assert scene.connected(scene.here) == (ALWAYS | {"alice", "bob"}, ALWAYS | {"alice", "bob"})
    await scene.grant(alice=["produce"], bob=["consume"])
    assert scene.connected(scene.here) == (ALWAYS | {"alice"}, ALWAYS | {"bob"})
    await scene.grant()
    assert scene.connected(scene.here) == (ALWAYS, ALWAYS)
    assert scene.connected(scene.elsewhere) == (ALWAYS | {"alice", "bob"}, ALWAYS | {"alice", "bob"})


async def test_a_change_of_something_else_judges_nobody() -> None:
    scene = Scene()
    await scene.grant(alice=["produce"])
    scene.judged = 0
    scene.record = {**scene.record, "message_ttl_in_seconds": 5}
    scene.recheck.namespace_changed("acme/orders")
    await asyncio.gather(*scene.tasks)
    assert scene.judged == 1, "one look at the record"


async def test_many_changes_at_once_are_judged_together() -> None:
    scene = Scene()
    await scene.grant(times=5, alice=["produce"])
    assert len(scene.tasks) == 1


async def test_permissions_that_cannot_be_read_disconnect_nobody(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.fault = MetadataError("/admin/policies/acme/orders", "gone")
    await scene.grant()
    assert scene.connected(scene.here) == (ALWAYS | {"alice", "bob"}, ALWAYS | {"alice", "bob"})
    assert "cannot be judged anew" in caplog.text
