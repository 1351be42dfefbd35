"""The health check uses the storage, and says so when the storage fails."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from magnetar.server.admin import health as health_module
from magnetar.server.admin.health import HEALTH_TOPIC, check_health
from magnetar.server.broker.broker import Broker
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.managed_ledger_errors import (
    AppendFault,
    EntryReadFault,
    ManagedLedgerError,
    ManagedLedgerFenced,
)
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.records.payload import parse_metadata


class FakeLedger:
    def __init__(self) -> None:
        self.append_fault: ManagedLedgerError | None = None
        self.read_fault: ManagedLedgerError | None = None
        self.answers = True
        self.stored: list[bytes] = []
        self.reads: list[Position] = []

    def add_entries(self, payloads: list[bytes], done: Callable[[AddResult], None]) -> None:
        if not self.answers:
            return
        self.stored += payloads
        runs = [] if self.append_fault else [(7, 3, len(payloads))]
        asyncio.get_running_loop().call_soon(done, AddResult(runs, self.append_fault))

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> None:
        if self.read_fault is not None:
            raise self.read_fault
        self.reads.append(position)


class FakeService:
    """A service of one topic, whose ledger fails when the test wants it to."""

    def __init__(self) -> None:
        self.ledger = FakeLedger()
        self.unloaded: list[Any] = []
        self.failure: Exception | None = None

    async def get_topic(self, name: TopicName, *, create: bool) -> "FakeService":
        assert (name, create) == (HEALTH_TOPIC, True)
        if self.failure is not None:
            raise self.failure
        return self

    async def unload(self, topic: Any) -> None:
        self.unloaded.append(topic)


async def check(service: FakeService) -> str | None:
    sole = SimpleNamespace(is_sole=True, owns=lambda name: True)
    return await check_health(cast(Broker, SimpleNamespace(service=service, ownership=sole, peer_client=None)))


async def test_a_message_is_stored_and_read_back() -> None:
    service = FakeService()
    assert await check(service) is None
    assert parse_metadata(service.ledger.stored[0]).producer_name == "healthcheck"
    assert service.ledger.reads == [Position(7, 3)]


async def test_a_failed_append_is_told_and_the_topic_stays_while_it_may_heal() -> None:
    service = FakeService()
    service.ledger.append_fault = AppendFault("t", "no space left on device")
    assert await check(service) == "Storage does not take messages: t: no space left on device"
    assert service.unloaded == []


async def test_a_topic_that_is_lost_is_unloaded_so_that_the_next_check_begins_anew() -> None:
    service = FakeService()
    service.ledger.append_fault = ManagedLedgerFenced("t", "fenced")
    assert await check(service) is not None
    assert service.unloaded == [service]


async def test_a_failed_read_or_load_is_told() -> None:
    service = FakeService()
    service.ledger.read_fault = EntryReadFault("t", "cannot be read")
    assert "cannot be read" in str(await check(service))
    service.failure = ServiceNotReady("The broker is shutting down")
    assert "shutting down" in str(await check(service))


async def test_storage_that_does_not_answer_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "HEALTH_SECONDS_MAX", 0.01)
    service = FakeService()
    service.ledger.answers = False
    assert await check(service) == "Storage did not answer in 0.01 s"
