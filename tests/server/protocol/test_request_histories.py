"""Random histories of requests on one connection, at the limit of requests in progress and below it.

Claims: every request is answered exactly once, except that a creation which its client closed meanwhile is not answered
at all; and whatever was answered, nothing of it is left: every id of a producer or consumer can be used again.
"""

import asyncio
import random
from collections import Counter
from typing import Any, cast

import pytest

from magnetar.server.protocol import requests as requests_module
from magnetar.server.protocol.command_permissions import guarded
from magnetar.server.protocol.handlers.command_table import TABLE
from magnetar.server.security.principals import Principal
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.rounds import rounds
from tests.server.fakes import FakeConsumer, FakeService, FakeTopic, Peer, make_traffic, settle
from tests.server.protocol.frame_strategies import sensible_command
from tests.server.protocol.handler_scene import producer, subscribe

REQUESTS_MAX = 4
IDS = 3
KINDS = ["PRODUCER", "SUBSCRIBE"] * 3 + [
    "CLOSE_PRODUCER",
    "CLOSE_CONSUMER",
    "UNSUBSCRIBE",
    "SEEK",
    "GET_LAST_MESSAGE_ID",
    "CONSUMER_STATS",
    "LOOKUP",
    "PARTITIONED_METADATA",
    "GET_TOPICS_OF_NAMESPACE",
    "ACK",
    "FLOW",
]


class Storage:
    """Everything that a handler waits for: it suspends the handler for a random time, and sometimes fails."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_sound = False

    async def work(self) -> None:
        if self.is_sound:
            return
        for _ in range(self.rng.choice((0, 1, 3, 30))):
            await asyncio.sleep(0)
        if self.rng.random() < 0.2:
            raise ServiceNotReady("the storage does not want")

    async def denied(self, *_: object, **__: object) -> str | None:
        """Takes the part of the authorizer, which refuses some requests and cannot judge others."""
        await self.work()
        return "not you" if not self.is_sound and self.rng.random() < 0.1 else None


class SuspendedConsumer(FakeConsumer):
    storage: Storage

    async def unsubscribe(self, force: bool) -> None:
        await self.storage.work()
        await super().unsubscribe(force)

    async def seek(self, request: pb.CommandSeek) -> None:
        await self.storage.work()
        await super().seek(request)

    async def last_message_id(self) -> Any:
        await self.storage.work()
        return self.position


class SuspendedTopic(FakeTopic):
    async def subscribe(self, cnx: Any, request: pb.CommandSubscribe) -> FakeConsumer:
        await self.service.pass_gate()
        consumer = SuspendedConsumer(cnx, request)
        consumer.storage = cast(SuspendedService, self.service).storage
        self.consumers.append(consumer)
        return consumer


class SuspendedService(FakeService):
    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self.storage = storage

    async def pass_gate(self) -> None:
        await self.storage.work()

    def knows_namespace(self, namespace: str) -> bool:
        return False

    async def check_namespace(self, namespace: str) -> None:
        await self.storage.work()

    async def topics_of(self, namespace: str) -> list[str]:
        await self.storage.work()
        return await super().topics_of(namespace)

    async def get_topic(self, name: Any, *, create: bool) -> FakeTopic:
        await self.storage.work()
        return self.topics.setdefault(name.full, SuspendedTopic(self, name))


def request_ids(answers: list[pb.BaseCommand]) -> list[int]:
    """Returns the request ids of all answers. What the broker sends by itself has the largest possible id, or none."""
    found = []
    for answer in answers:
        for field, body in answer.ListFields():
            if field.message_type is not None and "request_id" in body.DESCRIPTOR.fields_by_name:
                found.append(body.request_id)
    return [each for each in found if each != 2**64 - 1]


class History:
    def __init__(self, seed: int, is_guarded: bool) -> None:
        self.storage = Storage(seed)
        self.traffic = make_traffic(SuspendedService(self.storage))
        commands = guarded(TABLE, cast(Any, self.storage)) if is_guarded else TABLE
        self.peer = Peer(self.traffic, commands=commands).connect()
        self.peer.connection.principal = Principal("somebody")
        self.asked: dict[int, tuple[str, int]] = {}
        """What was asked: (kind of command, id of producer or consumer) by request id."""
        self.may_stay_unanswered: set[int] = set()
        self.answers: Counter[int] = Counter()

    async def play(self, steps: int) -> None:
        rng = self.storage.rng
        for request_id in range(100, 100 + steps):
            kind, item = rng.choice(KINDS), rng.randrange(IDS)
            self._say(kind, item, request_id)
            if rng.random() < 0.5:
                await settle(rng.choice((1, 2, 10)))
        await settle(200)
        self.answers.update(request_ids(await self.peer.answers()))

    def _say(self, kind: str, item: int, request_id: int) -> None:
        made = sensible_command(kind, item)
        body = getattr(made, TABLE[made.type].field)
        if kind == "GET_TOPICS_OF_NAMESPACE":
            body.namespace = "public/default"
        wants_answer = kind != "FLOW" and (kind != "ACK" or self.storage.rng.random() < 0.5)
        if wants_answer:
            body.request_id = request_id
            self.asked[request_id] = (kind, item)
        elif kind == "ACK":
            body.ClearField("request_id")
        created_by = {"CLOSE_PRODUCER": "PRODUCER", "CLOSE_CONSUMER": "SUBSCRIBE"}.get(kind)
        self.may_stay_unanswered |= {each for each, what in self.asked.items() if what == (created_by, item)}
        self.peer.say(made)

    def check_answers(self) -> None:
        for request_id, what in self.asked.items():
            count = self.answers[request_id]
            assert count <= 1, f"{what} was answered {count} times"
            assert count or request_id in self.may_stay_unanswered, f"{what} was not answered"

    async def check_ids_can_be_used(self) -> None:
        connection = self.peer.connection
        assert not self.traffic.broker.background_tasks
        assert not connection.pending_producers
        assert not connection.pending_consumers
        assert not self.traffic.broker.lookups_in_progress
        self.storage.is_sound = True
        for item in range(IDS):
            self.peer.say(producer(item, 2 * item), subscribe(item, 2 * item + 1))
        answers = await self.peer.answers()
        assert {each.type for each in answers} == {pb.BaseCommand.PRODUCER_SUCCESS, pb.BaseCommand.SUCCESS}
        assert sorted(request_ids(answers)) == list(range(2 * IDS))


@pytest.mark.parametrize("is_guarded", [False, True])
@pytest.mark.parametrize("seed", range(rounds(60)))
async def test_every_request_is_answered_once_and_a_refused_one_leaves_nothing(
    seed: int, is_guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "REQUESTS_MAX", REQUESTS_MAX)
    history = History(seed, is_guarded)
    await history.play(40)
    history.check_answers()
    monkeypatch.setattr(requests_module, "REQUESTS_MAX", 2 * IDS)
    await history.check_ids_can_be_used()


async def test_a_creation_that_is_refused_for_load_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(make_traffic()).connect()
    await peer.answers()
    monkeypatch.setattr(requests_module, "REQUESTS_MAX", 0)
    for asked in (producer(), subscribe()):
        peer.say(asked)
        assert (await peer.answer()).error.error == pb.TooManyRequests
    monkeypatch.setattr(requests_module, "REQUESTS_MAX", 10)
    peer.say(producer(), subscribe(request_id=2))
    assert {each.type for each in await peer.answers()} == {pb.BaseCommand.PRODUCER_SUCCESS, pb.BaseCommand.SUCCESS}
