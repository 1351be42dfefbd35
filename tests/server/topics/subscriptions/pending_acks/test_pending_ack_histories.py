"""Random histories of a subscription with transactions: consumers come and go and acknowledge with and without them,
appends to the log fail, transactions end, the topic is loaded again. A model knows what is acknowledged.

Claims: (1) a message is acknowledged if and only if a plain acknowledgement or a committed transaction names it; (2) an
acknowledgement in a transaction is refused if and only if it conflicts or cannot be stored; (3) no message is sent
while a transaction holds it; (4) when no transaction is left, the consumers that there are get all that is
unacknowledged.
"""

from random import Random

import pytest

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import Position, TxnId
from tests.rounds import rounds
from tests.server.topics.fake_managed_ledger import FakeManagedLedger
from tests.server.topics.scene import FakeConnection, ack, in_virtual_time, pass_time, payload, redeliver, settle
from tests.server.topics.subscriptions.pending_acks.pending_ack_scene import (
    LEDGER,
    TransactionScene,
    ack_in,
    consumer_of,
)

SIZE = 3
FULL = 2**SIZE - 1
Message = tuple[int, int]
"""The entry and the batch index; entries are batches of SIZE messages."""


class History:
    """One history: the subscription, and the model beside it."""

    def __init__(self, seed: int, kind: str) -> None:
        self.random = Random(seed)
        self.kind = kind
        self.scene = TransactionScene()
        self.scene.known.is_here = seed % 2 == 0
        self.entries = 0
        self.consumers: list[tuple[FakeConnection, Consumer]] = []
        self.acked: set[Message] = set()
        self.held: dict[TxnId, set[Message]] = {}
        self.seen: dict[FakeConnection, int] = {}
        """How many messages of each connection were looked at."""
        self._txns = 0

    @property
    def log(self) -> FakeManagedLedger | None:
        return next(iter(self.scene.factory.ledgers.values()), None)

    def message_sets(self, entry_id: int, bits: int) -> set[Message]:
        return {(entry_id, index) for index in range(SIZE) if bits >> index & 1}

    async def step(self) -> None:
        steps = [self.publish, self.take, self.take, self.plain, self.join, self.leave, self.end, self.end, self.ask]
        await (self.restart if self.random.random() < 0.03 else self.random.choice(steps))()
        await settle()
        self.check()

    async def publish(self) -> None:
        count = self.random.randint(1, 3)
        self.entries += count
        self.scene.ledger.add_entries([payload(b"m", batch=SIZE) for _ in range(count)], lambda result: None)

    async def join(self) -> None:
        if self.consumers and (self.kind == "Exclusive" or len(self.consumers) == 3):
            return
        cnx = FakeConnection()
        self.consumers.append((cnx, await consumer_of(self.scene, cnx, self.kind, permits=1_000_000)))

    async def leave(self) -> None:
        if self.consumers:
            self.consumers.pop(self.random.randrange(len(self.consumers)))[1].close()

    async def ask(self) -> None:
        if self.consumers:
            redeliver(self.random.choice(self.consumers)[1])

    def _choice(self) -> tuple[Consumer, int, int] | None:
        """Returns a consumer, an entry, and some messages of it."""
        if not self.consumers or not self.entries:
            return None
        consumer = self.random.choice(self.consumers)[1]
        return consumer, self.random.randrange(self.entries), self.random.randint(1, FULL)

    async def plain(self) -> None:
        choice = self._choice()
        if choice is None:
            return
        consumer, entry_id, bits = choice
        self.acked |= self.message_sets(entry_id, bits)
        ack(consumer, [Position(LEDGER, entry_id)], ack_set=[] if bits == FULL else [FULL & ~bits], batch_size=SIZE)

    async def take(self) -> None:
        choice = self._choice()
        if choice is None:
            return
        consumer, entry_id, bits = choice
        txn_id = self.random.choice([*self.held, TxnId(0, self._txns)])
        if txn_id.least == self._txns:
            self._txns += 1
        wanted = self.message_sets(entry_id, bits)
        taken = self.acked | {each for held in self.held.values() for each in held}
        whole = self.message_sets(entry_id, FULL)
        conflicts = bool(wanted & taken) if bits != FULL else whole <= self.acked or bool(whole & (taken - self.acked))
        fails = self.log is not None and self.random.random() < 0.2
        if fails and self.log is not None:
            self.log.append_failure = AppendFault("log", "lost")
        try:
            ack_set = {} if bits == FULL else {"ack_set": [FULL & ~bits]}
            await ack_in(txn_id, consumer, entry_id, batch_size=SIZE, **ack_set)
        except PulsarError:
            assert conflicts or fails
        else:
            assert not conflicts
            assert not fails
            self.held.setdefault(txn_id, set()).update(wanted)
        if self.log is not None:
            self.log.append_failure = None

    async def end(self) -> None:
        if not self.held:
            return
        txn_id = self.random.choice(list(self.held))
        commit = self.random.random() < 0.5
        pending = self.scene.topic.subscriptions["s"].pending_acks
        assert pending is not None
        await pending.end(txn_id, commit, -1)
        messages = self.held.pop(txn_id)
        if commit:
            self.acked |= messages

    async def restart(self) -> None:
        for _, consumer in self.consumers:
            consumer.close()
        self.consumers.clear()
        topic = await self.scene.load_again()
        for subscription in topic.subscriptions.values():
            if subscription.pending_acks is not None:
                await subscription.pending_acks.ready()

    def check(self) -> None:
        self._check_sent()
        subscription = self.scene.topic.subscriptions.get("s")
        if subscription is None:
            return
        cursor = subscription.cursor
        for entry_id in range(self.entries):
            words = cursor.ack_set_of(LEDGER, entry_id)
            left = 0 if cursor.is_acked(LEDGER, entry_id) else FULL if words is None else words[0]
            expected = sum(1 << index for index in range(SIZE) if (entry_id, index) not in self.acked)
            assert left == expected, f"entry {entry_id}: {left:b} is left, and not {expected:b}"

    def _check_sent(self) -> None:
        """Asserts of what was sent since the last step that no live transaction holds it."""
        held = {each for messages in self.held.values() for each in messages}
        for cnx, _ in self.consumers:
            sent, self.seen[cnx] = cnx.messages[self.seen.get(cnx, 0) :], len(cnx.messages)
            for each in sent:
                bits = each.ack_set[0] if each.ack_set else FULL
                assert not self.message_sets(each.position.entry_id, bits) & held

    async def finish(self) -> None:
        """Ends all transactions. Then consumers acknowledge what they have got, until there is nothing more."""
        while self.held:
            await self.end()
        if not self.consumers:
            await self.join()
        await pass_time(2)  # a consumer that became the active one of a Failover subscription waits for a second
        self.check()
        cursor = self.scene.topic.subscriptions["s"].cursor
        before = -1
        while cursor.backlog != before:
            before = cursor.backlog
            for cnx, consumer in self.consumers:
                ack(consumer, [each.position for each in cnx.messages])
                cnx.forget()
            await settle()
        assert cursor.backlog == 0, f"{cursor.unacked_ranges(10)} come to nobody"


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
@pytest.mark.parametrize("seed", range(rounds(25)))
@in_virtual_time
async def test_a_random_history_keeps_the_claims(seed: int, kind: str) -> None:
    history = History(seed, kind)
    await history.join()
    for _ in range(80):
        await history.step()
    await history.finish()
