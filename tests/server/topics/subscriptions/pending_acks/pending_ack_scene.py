"""What the tests of acknowledgements in transactions share: a topic whose subscriptions keep their logs in fake managed
ledgers, and a coordinator that knows what the test says."""

import asyncio
from typing import Any, cast

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.subscriptions.acks_in_transactions import recover_pending_acks
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLogs, log_name
from magnetar.server.topics.subscriptions.pending_acks.pending_acks import PendingAcksOfTransactions
from magnetar.server.topics.topic import Topic
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.pending_ack_log import PendingAckRecord, parse_pending_ack_entry, pending_ack_entry
from tests.server.steps import finish
from tests.server.topics.fake_managed_ledger import HEADER, FakeManagedLedger
from tests.server.topics.scene import FakeConnection, Scene, ack, settle, subscription_of

A, B, C = TxnId(0, 1), TxnId(0, 2), TxnId(0, 3)
LEDGER = 10
"""The ledger of the fake topic."""


class FakeKnown:
    """Says that all transactions are live but those in `dead`; it cannot tell while `is_away`. Their coordinators are
    on other brokers unless `is_here`."""

    def __init__(self) -> None:
        self.is_here = False
        self.dead: set[TxnId] = set()
        self.is_away = False
        self.asked: list[TxnId] = []

    are_in_use = True

    def is_live_here(self, txn_id: TxnId) -> bool:
        return self.is_here and txn_id not in self.dead

    async def is_live(self, txn_id: TxnId) -> bool:
        self.asked.append(txn_id)
        await settle(2)
        if self.is_away:
            raise ServiceNotReady("the coordinator is away")
        return txn_id not in self.dead


class FakeFactory:
    """Opens fake managed ledgers, and fails with `failure` while there is one."""

    def __init__(self) -> None:
        self.ledgers: dict[str, FakeManagedLedger] = {}
        self.failure: ManagedLedgerError | None = None

    async def open(self, name: str, config: ManagedLedgerConfig) -> FakeManagedLedger:
        await settle(2)
        if self.failure is not None:
            raise self.failure
        return self.ledgers.setdefault(name, FakeManagedLedger(name, first_ledger_id=500))

    async def exists(self, name: str) -> bool:
        await settle(2)
        return name in self.ledgers

    async def close_ledger(self, name: str) -> None:
        await settle(2)

    async def delete(self, name: str) -> None:
        await settle(2)
        del self.ledgers[name]


class TransactionScene(Scene):
    """A topic that takes acknowledgements in transactions."""

    def __init__(self, **settings: Any) -> None:
        self.known = FakeKnown()
        self.factory = FakeFactory()
        self.transactions = TransactionSettings(transaction_pending_ack_log_index_min_lag=4)
        super().__init__(**settings)

    def load(self) -> Topic:
        topic = super().load()
        support = TransactionSupport(self.transactions, self.known)
        topic.pending_ack_logs = PendingAckLogs(cast(Any, self.factory), support)
        return topic

    async def load_again(self) -> Topic:
        """Returns the topic as a broker finds it after a restart at which no acknowledgement on the cursor was lost."""
        topic = self.load()
        await recover_pending_acks(topic, topic.subscriptions.values())
        return topic

    def log_of(self, subscription: str = "s") -> FakeManagedLedger:
        return self.factory.ledgers[log_name(self.name, subscription)]

    def records(self, subscription: str = "s") -> list[PendingAckRecord]:
        return [
            record
            for entries in self.log_of(subscription).entries.values()
            for entry in entries
            for record in finish(parse_pending_ack_entry(entry[len(HEADER) :]))
        ]

    def write_log(self, records: list[PendingAckRecord], subscription: str = "s") -> None:
        """Makes a subscription's log as another broker left it."""
        name = log_name(self.name, subscription)
        self.factory.ledgers[name] = FakeManagedLedger(name, first_ledger_id=500)
        self.factory.ledgers[name].append_now([pending_ack_entry(each) for each in records])


def pending(consumer: Consumer) -> PendingAcksOfTransactions:
    found = subscription_of(consumer).pending_acks
    assert found is not None
    return found


async def ack_in(txn_id: TxnId, consumer: Consumer, *entry_ids: int, **options: Any) -> None:
    done = ack(consumer, [Position(LEDGER, each) for each in entry_ids], request_id=1, txn_id=txn_id, **options)
    await asyncio.shield(done)  # several acknowledgements may share the future


async def commit(txn_id: TxnId, consumer: Consumer, low_watermark: int = -1) -> None:
    await _end(txn_id, consumer, True, low_watermark)


async def abort(txn_id: TxnId, consumer: Consumer, low_watermark: int = -1) -> None:
    await _end(txn_id, consumer, False, low_watermark)


async def _end(txn_id: TxnId, consumer: Consumer, commit: bool, low_watermark: int) -> None:
    """Ends a transaction as the coordinator of the same broker does."""
    ending = pending(consumer).end_soon(txn_id, commit, low_watermark)
    if ending is None:
        await pending(consumer).end(txn_id, commit, low_watermark)
    else:
        await asyncio.shield(ending)


META = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT)


async def consumer_of(scene: TransactionScene, cnx: FakeConnection, kind: str, permits: int = 100) -> Consumer:
    """Returns a new consumer of the subscription `s`, which has got what there is for it."""
    consumer = await scene.consumer(cnx, kind, **({"keySharedMeta": META} if kind == "Key_Shared" else {}))
    consumer.flow(permits)
    await settle()
    return consumer


def mark_delete(consumer: Consumer) -> Position:
    return consumer.subscription.cursor.mark_delete
