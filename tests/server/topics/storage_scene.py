"""Topics over a real bookie in one process, which can be ended and started again."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.topic import Topic
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.bookie_channel import AddDone
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.bookie_wire import BookieRc, EntryDamaged
from tests.server.topics.scene import FakeConnection

NAME = TopicName.parse("persistent://public/default/t")
SMALL_LEDGERS = ManagedLedgerConfig(
    managed_ledger_max_entries_per_ledger=50,
    managed_ledger_min_ledger_rollover_time_minutes=0,
    managed_ledger_default_mark_delete_rate_limit=0,
)


class Disk:
    """The bookie, with faults. While the disk is full, reads work and adds do not. It does not have the entries in
    `lost`."""

    def __init__(self, bookie: Bookie) -> None:
        self._bookie = bookie
        self.is_full = False
        self.lost: set[tuple[int, int]] = set()

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Reads like `BookieChannel.read_entries`."""
        lost = [entry_id for of, entry_id in self.lost if of == ledger_id and entry_id >= first_entry_id]
        end = min(lost, default=first_entry_id + max_entries)
        if end == first_entry_id:
            raise EntryDamaged(f"entry {first_entry_id} of ledger {ledger_id}")
        return await self._bookie.read_entries(
            ledger_id, first_entry_id, min(max_entries, end - first_entry_id), max_bytes
        )

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        if self.is_full:
            asyncio.get_running_loop().call_soon(done, entry_ids, BookieRc.EREADONLY)
        else:
            self._bookie.add_entries(ledger_id, master_key, entry_ids, entries, flags, done)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bookie, name)


class Process:
    """The parts of a broker process. At its end it closes nothing that belongs to a topic, as after a kill."""

    def __init__(self, service: BrokerService, disk: Disk) -> None:
        self.service = service
        self.disk = disk
        self._ids = iter(range(1_000_000))

    async def topic(self) -> Topic:
        return await self.service.get_topic(NAME, create=True)

    async def producer(self, cnx: FakeConnection) -> Producer:
        command = pb.CommandProducer(topic=NAME.full, producer_id=next(self._ids), request_id=1)
        return await (await self.topic()).add_producer(cnx, command)

    async def consumer(self, cnx: FakeConnection, sub_type: str) -> Consumer:
        command = pb.CommandSubscribe(
            topic=NAME.full,
            subscription="s",
            subType=pb.CommandSubscribe.SubType.Value(sub_type),
            consumer_id=next(self._ids),
            request_id=1,
            initialPosition=pb.CommandSubscribe.Earliest,
        )
        return await (await self.topic()).subscribe(cnx, command)


@asynccontextmanager
async def process(
    folder: Path,
    store: MemoryStore,
    config: ManagedLedgerConfig = SMALL_LEDGERS,
    transactions: TransactionSupport | None = None,
    settings: TopicSettings | None = None,
) -> AsyncIterator[Process]:
    bookie = await Bookie.open(
        BookieConfig(journal_directories=(str(folder / "journal"),), ledger_directories=(str(folder / "ledgers"),)),
        bookie_id="bookie",
        list_ledgers=partial(list_ledgers, store),
    )
    disk = Disk(bookie)
    bookkeeper = BookKeeper(
        store,
        {"bookie": disk}.__getitem__,
        bookies=lambda: [] if disk.is_full else ["bookie"],
        next_ledger_id=LedgerIdGenerator(store).next_id,
        rng=random.Random(1),
    )
    if await store.exists(paths.policies_path(NAME.namespace)) is None:
        await store.create(paths.policies_path(NAME.namespace), make_parents=True)
    factory = ManagedLedgerFactory(store, bookkeeper, config, clock_ms=lambda: 1_000, tick_seconds=None)
    try:
        yield Process(BrokerService(factory, store, settings or TopicSettings(), transactions=transactions), disk)
    finally:
        await bookkeeper.close()
        await bookie.close()


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]
