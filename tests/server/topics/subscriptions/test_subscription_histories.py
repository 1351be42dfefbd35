"""Random histories of a topic's subscriptions: several clients subscribe, seek, unsubscribe and leave, and an operator
creates, resets and deletes, all at the same time, while every step of the storage takes a while and some fail.

Claims: every call ends; no consumer is on a subscription that is gone; no subscription takes another one's place; the
cursors are those of the durable subscriptions; a client that is disconnected without its own request is told so; and
every consumer that is connected in the end gets messages.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.managed_ledger_errors import CursorFault
from pulsar_proto.errors import PulsarError
from tests.rounds import rounds
from tests.server.topics.fake_managed_ledger import pause
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    bodies,
    in_virtual_time,
    message_id,
    pass_time,
    payload,
    payloads,
    seek_command,
    settle,
    subscription_of,
)

CLIENTS = 4
STEPS = 8
NAMES = ("one", "two")
TYPES = ("Exclusive", "Exclusive", "Shared", "Failover", "Key_Shared")


class SlowConnection(FakeConnection):
    """Takes a while to say whether it is alive, and is sometimes dead."""

    def __init__(self, number: int, random: Random) -> None:
        super().__init__(f"/127.0.0.1:{5000 + number}")
        self.random = random

    async def check_liveness(self) -> bool:
        await pause(self.random)
        if self.is_open and self.random.random() < 0.3:
            self.close("dead")
        return self.is_open

    @property
    def told_closed(self) -> set[int]:
        return {command.close_consumer.consumer_id for command in self.of_type("CLOSE_CONSUMER")}


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.scene = Scene()
        self.scene.ledger.random = self.random
        self.scene.ledger.append_now(payloads(b"a", b"b", b"c"))
        self.consumers: list[Consumer] = []
        self.subscriptions: list[Subscription] = []
        self.left_by_themselves: set[Consumer] = set()
        self._connections = 0

    async def play(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)), self._operator())
        for store in self.scene.ledger.stores.values():
            store.failure = None
        await settle(100)

    # --- who takes part ----------------------------------------------------------------------------------------------

    async def _client(self) -> None:
        cnx = self._connect()
        mine: list[Consumer] = []
        for _ in range(STEPS):
            if not cnx.is_open:
                cnx, mine = self._connect(), []
            mine = [each for each in mine if not each.is_closed]
            await pause(self.random)
            await self._answered(self._client_step(cnx, mine))

    def _connect(self) -> SlowConnection:
        self._connections += 1
        return SlowConnection(self._connections, self.random)

    async def _client_step(self, cnx: SlowConnection, mine: list[Consumer]) -> None:
        if not mine or self.random.random() < 0.3:
            await self._subscribe(cnx, mine)
            return
        consumer = self.random.choice(mine)
        steps: list[Callable[[], Awaitable[None]]] = [
            lambda: self._leave(consumer),
            lambda: self._unsubscribe(consumer),
            lambda: consumer.seek(seek_command(consumer, message_id=message_id(10, 1))),
            lambda: consumer.seek(seek_command(consumer, message_publish_time=0)),
        ]
        await self.random.choice(steps)()

    async def _subscribe(self, cnx: SlowConnection, mine: list[Consumer]) -> None:
        random = self.random
        rollback = {"start_message_rollback_duration_sec": 10} if random.random() < 0.2 else {}
        consumer = await self.scene.consumer(
            cnx, random.choice(TYPES), subscription=random.choice(NAMES), durable=random.random() < 0.5, **rollback
        )
        self.consumers.append(consumer)
        self._note(subscription_of(consumer))
        mine.append(consumer)

    async def _leave(self, consumer: Consumer) -> None:
        self.left_by_themselves.add(consumer)
        consumer.close()

    async def _unsubscribe(self, consumer: Consumer) -> None:
        self.left_by_themselves.add(consumer)  # the answer to UNSUBSCRIBE tells its client
        await consumer.unsubscribe(self.random.random() < 0.5)

    async def _operator(self) -> None:
        topic = self.scene.topic
        for _ in range(STEPS):
            await pause(self.random)
            name = self.random.choice(NAMES)
            there = topic.subscriptions.get(name)
            step = self.random.choice(("create", "create", "delete", "reset", "fail", "mend"))
            if step == "create":
                await self._answered(self._create(name))
            elif there is None or not there.is_durable:
                continue
            elif step == "delete":
                await self._answered(there.delete())
            elif step == "reset":
                await self._answered(there.reset_to_time(0))
            else:
                self.scene.ledger.stores[name].failure = CursorFault(name, "full") if step == "fail" else None

    async def _create(self, name: str) -> None:
        self._note(await self.scene.topic.create_subscription(name, self.scene.ledger.ledgers.end))

    def _note(self, subscription: Subscription) -> None:
        self.subscriptions.append(subscription)

    async def _answered(self, call: Awaitable[None]) -> None:
        with contextlib.suppress(PulsarError):  # an error is an answer too
            await call

    # --- claims ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        topic, ledger = self.scene.topic, self.scene.ledger
        current = topic.subscriptions
        for subscription in self.subscriptions:
            assert current.get(subscription.name) is subscription or not subscription.consumers, "overwritten"
        for consumer in self.consumers:
            cnx: Any = consumer.cnx
            if not consumer.is_closed:
                subscription = subscription_of(consumer)
                assert consumer in subscription.consumers
                assert current.get(subscription.name) is subscription, "a consumer of a subscription that is gone"
            elif cnx.is_open and consumer not in self.left_by_themselves:
                assert consumer.consumer_id in cnx.told_closed, "disconnected without a word"
        durable = {name: each.cursor for name, each in current.items() if each.is_durable}
        assert durable == ledger.cursors

    async def check_messages_arrive(self) -> None:
        living = [each for each in self.consumers if not each.is_closed]
        for consumer in living:
            consumer.flow(100)
        stored: list[AddResult] = []
        self.scene.ledger.add_entries([payload(b"last")], stored.append)
        await pass_time(5)
        assert stored
        for subscription in {subscription_of(each) for each in living}:
            received = [bodies(each.cnx) for each in subscription.consumers]  # type: ignore[arg-type]
            assert any(b"last" in each for each in received), "nobody of a subscription gets anything"


@pytest.mark.parametrize("seed", range(rounds(300)))
def test_every_call_ends_and_every_consumer_is_on_a_living_subscription(seed: int) -> None:
    @in_virtual_time
    async def history() -> None:
        played = History(seed)
        await played.play()
        played.check()
        await played.check_messages_arrive()

    history()
