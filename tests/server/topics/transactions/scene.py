"""A topic with transactions on a fake managed ledger, coordinators that tests command, and snapshots in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.schema.schema_types import Schema
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.transaction_recovery import recover_transactions
from magnetar.server.topics.transactions.snapshot_table import SnapshotKind
from magnetar.server.topics.transactions.topic_transactions import TopicTransactions
from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from magnetar.server.transactions.known_transactions import TransactionSupport
from pulsar_proto.errors import PulsarError, TopicNotFound
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.fake_managed_ledger import pause
from tests.server.topics.scene import FakeConnection, Scene, bodies, payload, settle

VECTORS = Path(__file__).parents[3] / "vectors" / "transaction_buffers.json"


@cache
def recorded() -> Any:
    """Returns what Apache's broker has stored and answered."""
    return json.loads(VECTORS.read_text())


def recorded_ledger(topic: str, when: str = "1") -> list[bytes]:
    """Returns the entries of a topic's first recorded ledger."""
    entries = next(each["entries"] for each in recorded()["ledgers"] if (each["of"], each["when"]) == (topic, when))
    return [bytes.fromhex(entry["hex"]) for entry in entries]


class FakeKnown:
    """Coordinators that have begun the transactions in `live`. With `is_elsewhere` they are on other brokers, so that
    each answer takes some turns."""

    def __init__(self, random: Random) -> None:
        self.are_in_use = True
        self.live: set[TxnId] = set()
        self.is_elsewhere = False
        self.failure: PulsarError | None = None
        self.asked = 0
        self._random = random

    def begin(self, least: int, most: int = 0) -> TxnId:
        txn_id = TxnId(most, least)
        self.live.add(txn_id)
        return txn_id

    def is_live_here(self, txn_id: TxnId) -> bool:
        return not self.is_elsewhere and txn_id in self.live

    def is_live(self, txn_id: TxnId) -> bool | Awaitable[bool]:
        self.asked += 1
        if self.is_elsewhere:
            return self._answer(txn_id)
        if self.failure is not None:
            raise self.failure
        return txn_id in self.live

    async def _answer(self, txn_id: TxnId) -> bool:
        await pause(self._random)
        if self.failure is not None:
            raise self.failure
        return txn_id in self.live


class FakeSnapshotLog:
    """Keeps messages in memory. Each call takes some turns; `append` waits while `gate` is set, and fails with
    `failure` if there is one."""

    def __init__(self, random: Random) -> None:
        self.messages: list[tuple[str, bytes | None]] = []
        self.gate: asyncio.Event | None = None
        self.failure: PulsarError | None = None
        self.exists = False
        self.is_closed = False
        self.closed = 0
        self._random = random

    def close_soon(self) -> None:
        self.closed += 1

    async def news(self) -> AsyncIterator[tuple[str, bytes | None]]:
        for message in self.messages:
            await pause(self._random)
            yield message

    async def append(self, key: str, value: bytes | None) -> Position:
        await pause(self._random)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.messages.append((key, value))
        return Position(1, len(self.messages) - 1)


class FakeSnapshotLogs:
    def __init__(self, random: Random) -> None:
        self._random = random
        self.opened = 0
        self._of: dict[str, FakeSnapshotLog] = {}

    def of(self, kind: SnapshotKind, namespace: str = "public/default") -> FakeSnapshotLog:
        name = f"persistent://{namespace}/{kind.value}"
        return self._of.setdefault(name, FakeSnapshotLog(self._random))

    async def open(self, name: TopicName, schema: Schema, *, create: bool) -> FakeSnapshotLog:
        await pause(self._random)
        self.opened += 1
        log = self.of(SnapshotKind(name.local_name), name.namespace)
        if not create and not log.exists and not log.messages:
            raise TopicNotFound(name.full)
        log.exists = True
        return log


class TxnScene(Scene):
    """A topic that takes messages of transactions. `await scene.start()` loads it."""

    def __init__(self, *, settings: Mapping[str, Any] | None = None, seed: int = 1, **topic_settings: Any) -> None:
        self.random = Random(seed)
        self.known = FakeKnown(self.random)
        self.logs = FakeSnapshotLogs(self.random)
        self.now_ms = 1_000
        self.support = TransactionSupport(TransactionSettings(**(settings or {})), self.known)
        super().__init__(**topic_settings)

    def load(self) -> Topic:
        topic = super().load()
        self.shared = TopicTransactions(self.support, self.logs, lambda: self.now_ms)
        return topic

    async def start(self) -> "TxnScene":
        await recover_transactions(self.topic, self.shared)
        await self.topic.prepare()
        return self

    async def reload(self) -> None:
        """Loads the topic again, as after a crash of the broker."""
        self.topic.detach()
        self.load()
        await self.start()

    @property
    def buffer(self) -> TransactionBuffer:
        buffer = self.topic.begin_transactions()
        assert buffer is not None
        return buffer

    async def seen(self, subscription: str, sub_type: str = "Exclusive", **fields: Any) -> "Seen":
        """Returns a new consumer's connection with all permits."""
        seen = Seen()
        consumer = await self.consumer(seen, sub_type, subscription=subscription, **fields)
        consumer.flow(1_000)
        await settle()
        return seen


class Seen(FakeConnection):
    @property
    def bodies(self) -> list[bytes]:
        return bodies(self)


def send(producer: Producer, body: bytes, txn_id: TxnId | None = None, sequence_id: int = 0, **fields: Any) -> None:
    """Publishes one message as a connection hands it over. `fields` are further fields of the metadata."""
    producer.publish_in_transactions([send_of(producer, body, txn_id, sequence_id, **fields)])


def send_of(
    producer: Producer, body: bytes, txn_id: TxnId | None = None, sequence_id: int = 0, **fields: Any
) -> tuple[pb.CommandSend, bytes]:
    command = pb.CommandSend(producer_id=producer.producer_id, sequence_id=sequence_id)
    if txn_id is None:
        return command, payload(body, **fields)
    command.txnid_most_bits, command.txnid_least_bits = txn_id
    ids = {"txnid_most_bits": txn_id.most, "txnid_least_bits": txn_id.least}
    return command, payload(body, **{**ids, **fields})


def refusals(cnx: FakeConnection) -> list[tuple[int, str]]:
    return [(each.send_error.sequence_id, each.send_error.message) for each in cnx.of_type("SEND_ERROR")]
