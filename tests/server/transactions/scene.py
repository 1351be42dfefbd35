"""A coordinator over a real bookie, and topics and subscriptions that only remember what they were told."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.transactions.batch_counters import BatchCounters
from magnetar.server.transactions.coordinator import TransactionCoordinator
from magnetar.server.transactions.coordinators import TransactionCoordinators
from magnetar.server.transactions.end_calls import EndCalls
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import TxnId
from tests.server.topics.storage_scene import process

TOPIC = "persistent://public/default/t"
MINUTE_MS = 60_000


class RememberingParticipants:
    """Topics and subscriptions. Those in `away` fail; `ended` has what the others were told, in order."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.ended: list[tuple[str, TxnId, bool, int]] = []
        self.attempts = 0

    def end_on_loaded_partition(self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        """Says that a task is needed."""

    def end_on_loaded_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> None:
        """Says that a task is needed."""

    async def end_on_partition(self, topic: str, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        await self._end(topic, txn_id, commit, low_watermark)

    async def end_on_subscription(
        self, topic: str, subscription: str, txn_id: TxnId, commit: bool, low_watermark: int
    ) -> None:
        await self._end(f"{topic} {subscription}", txn_id, commit, low_watermark)

    async def _end(self, name: str, txn_id: TxnId, commit: bool, low_watermark: int) -> None:
        await asyncio.sleep(0)
        self.attempts += 1
        if name in self.away:
            raise ServiceNotReady(f"{name} is away")
        self.ended.append((name, txn_id, commit, low_watermark))


class Scene:
    """The parts of a process that has coordinators."""

    def __init__(self, service: BrokerService, settings: TransactionSettings) -> None:
        self.service = service
        self.factory = service.managed_ledgers
        self.settings = settings
        self.participants = RememberingParticipants()
        self.calls = EndCalls(self.participants, settings)
        self.batches = BatchCounters()
        self.closed: list[TransactionCoordinator] = []

    def coordinator(self, coordinator_id: int = 0) -> Coroutine[Any, Any, TransactionCoordinator]:
        """Opens a coordinator."""
        return TransactionCoordinator.open(
            coordinator_id,
            self.factory,
            self.settings,
            self.calls,
            lambda closed, error: self.closed.append(closed),
            self.batches,
        )

    def coordinators(self) -> TransactionCoordinators:
        """Makes the coordinators of a standalone server, which have still to be started."""
        partitioned, ownership = self.service.catalog.partitioned, self.service.ownership
        return TransactionCoordinators(self.settings, self.factory, partitioned, ownership, self.calls)


@asynccontextmanager
async def scene(folder: Path, store: MemoryStore, settings: TransactionSettings | None = None) -> AsyncIterator[Scene]:
    """A process. At its end it closes nothing that belongs to a coordinator, as after a kill."""
    async with process(folder, store) as broker:
        yield Scene(broker.service, settings or TransactionSettings())
