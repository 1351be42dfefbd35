"""Which coordinators a broker runs: those of the bundles that it owns, from the start on, and again after a fault."""

import asyncio
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.transactions.coordinators import ASSIGN_TOPIC
from magnetar.server.transactions.live_transactions import LiveTransactions
from magnetar.server.transactions.transaction_log import log_topic
from pulsar_proto.errors import NotAllowed, TransactionCoordinatorNotFound
from pulsar_proto.ids import TxnId
from tests.server.transactions.scene import MINUTE_MS, TOPIC, scene
from tests.waiting import until


async def asked_elsewhere(txn_id: TxnId) -> bool:
    raise AssertionError(f"{txn_id}: there is no other broker")


async def test_a_standalone_server_has_one_coordinator_which_gets_a_log_when_a_client_connects(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        assert await coordinators.count() == 1
        record = await store.get("/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign")
        assert record is not None
        assert record.value == b'{"partitions":1,"deleted":false}'
        assert not coordinators.are_in_use
        assert not await broker.factory.exists(log_topic(0).managed_ledger_name)
        await coordinators.connect(0)
        assert coordinators.are_in_use
        assert await broker.factory.exists(log_topic(0).managed_ledger_name)
        await coordinators.close()
    async with scene(tmp_path, store) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        await until(lambda: 0 in coordinators.loaded)
        await coordinators.close()


async def test_more_coordinators_of_a_standalone_server_have_no_logs_either_before_a_client_connects(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        await coordinators.scale(3)
        await coordinators.connect(2)
        assert list(coordinators.loaded) == [2]
        await coordinators.close()


async def test_clients_that_begin_without_connecting_get_transactions_of_one_coordinator(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        first, second = await asyncio.gather(coordinators.get_to_begin(0), coordinators.get_to_begin(0))
        assert first is second
        assert await first.new(MINUTE_MS, None) == TxnId(0, 0)
        with pytest.raises(TransactionCoordinatorNotFound):
            await coordinators.get_to_begin(1)
        await coordinators.close()


async def test_open_transactions_time_out_after_a_restart_although_no_client_asks(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        coordinator = await coordinators.connect(0)
        txn_id = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_partitions(txn_id, [TOPIC])
        later = broker.factory.clock_ms() + MINUTE_MS + 1
    async with scene(tmp_path, store) as broker:
        broker.factory.clock_ms = lambda: later
        await broker.coordinators().start()
        await until(lambda: broker.participants.ended)
        assert [each[:3] for each in broker.participants.ended] == [(TOPIC, txn_id, False)]


async def test_a_coordinator_whose_log_fails_is_loaded_again(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        first = await coordinators.connect(0)
        txn_id = await first.new(MINUTE_MS, None)
        await broker.factory.close_ledger(log_topic(0).managed_ledger_name)
        with pytest.raises(TransactionCoordinatorNotFound):
            await first.add_partitions(txn_id, [TOPIC])
        second = await coordinators.connect(0)
        assert second is not first
        await second.add_partitions(txn_id, [TOPIC])
        assert await second.new(MINUTE_MS, None) == TxnId(0, 1)
        await coordinators.close()


async def test_a_log_that_cannot_be_opened_is_told_and_tried_again(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        name = log_topic(0).managed_ledger_name
        ledger = await broker.factory.open(name)
        ledger.add_entries([b"\xff rubbish"], lambda result: None)
        await until(lambda: ledger.number_of_entries == 1)
        coordinators = broker.coordinators()
        await coordinators.start()
        with pytest.raises(Exception, match="is no record of a transaction log"):
            await coordinators.connect(0)
        with pytest.raises(TransactionCoordinatorNotFound):
            coordinators.get(0)
        await coordinators.close()


async def test_only_live_transactions_of_existing_coordinators_are_known(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinators, live = broker.coordinators(), LiveTransactions()
        assert live.is_live(TxnId(0, 0)) is False
        await coordinators.start()
        live.attach(coordinators, asked_elsewhere)
        assert not live.are_in_use
        assert live.is_live(TxnId(0, 0)) is False
        assert not await broker.factory.exists(log_topic(0).managed_ledger_name)
        loading = asyncio.create_task(coordinators.connect(0))
        await until(lambda: live.are_in_use)
        waits = live.is_live(TxnId(0, 0))  # the coordinator is being loaded
        assert not isinstance(waits, bool)
        assert await waits is False
        coordinator = await loading
        txn_id = await coordinator.new(MINUTE_MS, None)
        assert live.is_live(txn_id) is True
        assert live.is_live(TxnId(0, 1)) is False
        missing = live.is_live(TxnId(1, 0))
        assert not isinstance(missing, bool)
        assert await missing is False
        await coordinator.end(txn_id, commit=True)
        assert live.is_live(txn_id) is False
        await coordinators.close()


async def test_logs_and_coordinators_are_never_loaded_as_topics_and_logs_are_not_listed(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinators = broker.coordinators()
        await coordinators.start()
        coordinator = await coordinators.connect(0)
        await broker.service.metadata.create("/admin/policies/pulsar/system", b"{}", make_parents=True)
        assert log_topic(0).full not in await broker.service.catalog.topics_of("pulsar/system")
        for name in (log_topic(0), ASSIGN_TOPIC.partition(0)):
            with pytest.raises(NotAllowed, match=f"Can not create transaction system topic {name.full}"):
                await broker.service.get_topic(name, create=True)
        assert await coordinator.new(MINUTE_MS, None) == TxnId(0, 0)
        await coordinators.close()
