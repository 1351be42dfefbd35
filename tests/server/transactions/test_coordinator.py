"""A coordinator over real storage: ids, participants, ends, time-outs, and what a restart finds."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.process import turns
from magnetar.server.transactions.coordinator import CoordinatorState, TransactionCoordinator
from magnetar.server.transactions.log_place import LogPlace
from magnetar.server.transactions.transaction_log import CURSOR, RECORDS_AT_ONCE, TransactionLog
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.errors import (
    InvalidTxnStatus,
    NotAllowed,
    TooManyRequests,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from pulsar_proto.ids import TxnId
from pulsar_proto.records.transaction_log import Record, TxnStatus, parse_entry
from tests.server.transactions.scene import MINUTE_MS, TOPIC, Scene, scene
from tests.waiting import until

BATCHED = TransactionSettings(transaction_log_batched_write_enabled=True)
ONE_BATCH = TransactionSettings(
    transaction_log_batched_write_enabled=True, transaction_log_batched_write_max_delay_in_millis=0
)
BOTH = pytest.mark.parametrize("settings", [TransactionSettings(), BATCHED], ids=["bare", "batched"])


async def stored_records(broker: Scene) -> list[str]:
    """Returns the operations of the records in the log, in their order."""
    (ledger,) = (each for name, each in broker.factory.ledgers.items() if "__transaction_log_0" in name)
    run = await ledger.read(ledger.first_position, 100, 1 << 20)
    return [
        record.TransactionMetadataOp.Name(record.metadata_op)
        for entry in run.entries
        for record in parse_entry(entry[run.payload_offset :])[0]
    ]


async def all_deleted(coordinator: TransactionCoordinator) -> None:
    """Returns when the log has the record of the end of each transaction, and none of them is needed any more."""
    await until(lambda: coordinator.log.ledger.cursors[CURSOR].backlog == 0)


@BOTH
async def test_ids_count_on_after_a_restart(tmp_path: Path, settings: TransactionSettings) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        ids = await asyncio.gather(*(coordinator.new(MINUTE_MS, None) for _ in range(3)))
        assert ids == [TxnId(0, 0), TxnId(0, 1), TxnId(0, 2)]
        for txn_id in ids:
            await coordinator.end(txn_id, commit=True)
        await all_deleted(coordinator)
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        assert len(coordinator.table) == 0
        assert await coordinator.new(MINUTE_MS, None) == TxnId(0, 3)


@BOTH
async def test_ids_count_on_when_the_ledgers_of_all_records_were_deleted(
    tmp_path: Path, settings: TransactionSettings
) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        for _ in range(3):
            await coordinator.end(await coordinator.new(MINUTE_MS, None), commit=False)
        ledger = coordinator.log.ledger
        await all_deleted(coordinator)
        await ledger.cursors[CURSOR].persisted()
        await ledger.roll()
        ledger.request_trim()
        await until(lambda: ledger.number_of_entries == 0)
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        assert await coordinator.new(MINUTE_MS, None) == TxnId(0, 3)


@BOTH
async def test_a_commit_tells_every_participant_and_is_answered_after_that(
    tmp_path: Path, settings: TransactionSettings
) -> None:
    async with scene(tmp_path, MemoryStore(), settings) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_partitions(txn_id, [TOPIC, TOPIC + "2"])
        await coordinator.add_partitions(txn_id, [TOPIC])
        await coordinator.add_subscriptions(txn_id, [(TOPIC, "s")])
        await coordinator.end(txn_id, commit=True)
        names = [TOPIC, f"{TOPIC} s", TOPIC + "2"]
        assert sorted(broker.participants.ended) == [(name, txn_id, True, -1) for name in names]
        assert coordinator.counters.committed == 1
        await all_deleted(coordinator)
        operations = ["NEW", "ADD_PARTITION", "ADD_PARTITION", "ADD_SUBSCRIPTION", "UPDATE", "UPDATE"]
        assert await stored_records(broker) == operations
        with pytest.raises(TransactionNotFound, match=r"The transaction with this txdID `\(0,0\)`not found "):
            await coordinator.end(txn_id, commit=True)


async def test_the_low_watermark_is_one_below_the_first_transaction_that_is_alive(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        first, second, third = [await coordinator.new(MINUTE_MS, None) for _ in range(3)]
        await coordinator.add_partitions(third, [TOPIC])
        await coordinator.end(second, commit=False)
        await coordinator.end(first, commit=True)
        await coordinator.end(third, commit=False)
        assert broker.participants.ended == [(TOPIC, third, False, 1)]
        assert coordinator.low_watermark == 0


@BOTH
async def test_all_records_of_an_ended_transaction_are_deleted_and_only_those(
    tmp_path: Path, settings: TransactionSettings
) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        ids = await asyncio.gather(*(coordinator.new(MINUTE_MS, None) for _ in range(70)))
        await asyncio.gather(*(coordinator.add_partitions(txn_id, [TOPIC]) for txn_id in ids))
        await asyncio.gather(*(coordinator.end(txn_id, commit=True) for txn_id in ids if txn_id.least not in (3, 66)))
        await coordinator.add_partitions(ids[3], [TOPIC])  # so that all records before this one are stored
        await coordinator.log.ledger.cursors[CURSOR].persisted()
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        assert [transaction.txn_id.least for transaction in coordinator.table] == [3, 66]
        assert all(transaction.partitions == (TOPIC,) for transaction in coordinator.table)
        assert broker.participants.ended == []
        await coordinator.end(TxnId(0, 66), commit=True)
        await coordinator.end(TxnId(0, 3), commit=True)
        await all_deleted(coordinator)


async def test_a_log_is_read_whatever_kind_of_entries_its_earlier_coordinators_have_written(tmp_path: Path) -> None:
    store = MemoryStore()
    ids: list[TxnId] = []
    for settings in (TransactionSettings(), BATCHED, TransactionSettings(), BATCHED):
        async with scene(tmp_path, store, settings) as broker:
            coordinator = await broker.coordinator()
            assert [each.txn_id for each in coordinator.table] == ids
            assert all(each.partitions == (TOPIC,) for each in coordinator.table)
            ended, *kept = await asyncio.gather(*(coordinator.new(MINUTE_MS, None) for _ in range(3)))
            ids += kept
            await asyncio.gather(*(coordinator.add_partitions(txn_id, [TOPIC]) for txn_id in (ended, *kept)))
            await coordinator.end(ended, commit=True)
            await coordinator.add_partitions(kept[0], [TOPIC])  # so that all records before this one are stored
            await coordinator.log.ledger.cursors[CURSOR].persisted()
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        await asyncio.gather(*(coordinator.end(txn_id, commit=True) for txn_id in ids))
        await all_deleted(coordinator)


@pytest.mark.parametrize("settings", [TransactionSettings(), ONE_BATCH], ids=["bare", "one batch"])
async def test_other_tasks_run_while_a_log_is_replayed(
    tmp_path: Path, settings: TransactionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, count = MemoryStore(), 5 * RECORDS_AT_ONCE
    async with scene(tmp_path, store, settings) as broker:
        coordinator = await broker.coordinator()
        await asyncio.gather(*(coordinator.new(MINUTE_MS, None) for _ in range(count)))
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)
    seen: set[int] = set()
    async with scene(tmp_path, store, settings) as broker:
        log = await TransactionLog.open(0, broker.factory, settings, broker.batches)
        replayed: list[LogPlace] = []

        def apply(record: Record, place: LogPlace) -> tuple[LogPlace, ...]:
            replayed.append(place)
            return ()

        replaying = asyncio.create_task(log.replay(apply))
        while not replaying.done():
            seen.add(len(replayed))
            await asyncio.sleep(0)
        assert await replaying == count
        await log.close()
    assert len({place[:2] for place in replayed}) == (1 if settings is ONE_BATCH else count)
    assert len(seen - {0, count}) >= count // RECORDS_AT_ONCE - 1


async def test_coordinators_that_are_opened_together_each_say_what_is_wrong_with_their_own_log(tmp_path: Path) -> None:
    sizes = [3, 5, 7, 9]
    async with scene(tmp_path, MemoryStore()) as broker:
        for coordinator_id, size in enumerate(sizes):
            log = await TransactionLog.open(coordinator_id, broker.factory, broker.settings, broker.batches)
            stored: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()
            log.ledger.add_entries([b"\xff" * size], stored.set_result)
            assert (await stored).error is None
            await log.close()
        # Each is a task of its own, so that they fail while the others close their logs.
        tasks = [asyncio.create_task(broker.coordinator(coordinator_id)) for coordinator_id in range(len(sizes))]
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(error) for error in errors] == [
            f"an entry of {size} bytes is no record of a transaction log" for size in sizes
        ]
        assert not broker.factory.ledgers, "each has closed its log"


async def test_a_transaction_that_is_not_open_takes_no_participants_and_no_other_end(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_partitions(txn_id, [TOPIC])
        broker.participants.away = {TOPIC}
        ending = asyncio.create_task(coordinator.end(txn_id, commit=True))
        await until(lambda: broker.participants.attempts)
        with pytest.raises(
            InvalidTxnStatus, match=r"Expect Txn `\(0,0\)` to be in OPEN status but it is in COMMITTING"
        ):
            await coordinator.add_partitions(txn_id, [TOPIC])
        with pytest.raises(InvalidTxnStatus):
            await coordinator.add_subscriptions(txn_id, [(TOPIC, "s")])
        with pytest.raises(InvalidTxnStatus):
            await coordinator.end(txn_id, commit=False)
        assert not ending.done()
        broker.participants.away.clear()
        await asyncio.gather(ending, coordinator.end(txn_id, commit=True))
        assert broker.participants.ended == [(TOPIC, txn_id, True, -1)]


async def test_of_two_ends_at_the_same_time_the_first_one_counts(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        results = await asyncio.gather(
            coordinator.end(txn_id, commit=False),
            coordinator.end(txn_id, commit=True),
            coordinator.add_partitions(txn_id, [TOPIC]),
            return_exceptions=True,
        )
        assert results[0] is None
        assert isinstance(results[1], InvalidTxnStatus)
        assert (coordinator.counters.aborted, coordinator.counters.committed) == (1, 0)


async def test_participants_that_have_answered_are_not_told_again(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_partitions(txn_id, [TOPIC, TOPIC + "2"])
        broker.participants.away = {TOPIC}
        ending = asyncio.create_task(coordinator.end(txn_id, commit=True))
        await until(lambda: broker.participants.attempts == 2)
        broker.participants.away.clear()
        await ending
        assert sorted(name for name, *_ in broker.participants.ended) == [TOPIC, TOPIC + "2"]


async def test_a_decision_is_carried_out_after_a_restart_although_nobody_asks(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        ids = [await coordinator.new(MINUTE_MS, None) for _ in range(2)]
        for txn_id in ids:
            await coordinator.add_partitions(txn_id, [TOPIC])
        broker.participants.away = {TOPIC}
        endings = [asyncio.create_task(coordinator.end(txn_id, commit=txn_id.least == 0)) for txn_id in ids]
        await until(lambda: broker.participants.attempts == 2)
        for ending in endings:
            ending.cancel()
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        await until(lambda: len(coordinator.table) == 0)
        ends = sorted(each[:3] for each in broker.participants.ended)
        assert ends == [(TOPIC, ids[0], True), (TOPIC, ids[1], False)]


async def test_an_end_is_answered_before_its_last_record_is_stored_and_a_restart_tells_the_participants_again(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_partitions(txn_id, [TOPIC])
        await coordinator.end(txn_id, commit=True)
        assert (len(coordinator.table), coordinator.counters.committed) == (0, 1)
        assert await stored_records(broker) == ["NEW", "ADD_PARTITION", "UPDATE"]
        with pytest.raises(TransactionNotFound):
            await coordinator.end(txn_id, commit=True)
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        await all_deleted(coordinator)
        assert broker.participants.ended == [(TOPIC, txn_id, True, -1)]


async def test_the_last_record_of_an_end_is_stored_together_with_the_next_record(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        await coordinator.end(await coordinator.new(MINUTE_MS, None), commit=True)
        await coordinator.new(MINUTE_MS, None)
        assert await stored_records(broker) == ["NEW", "UPDATE", "UPDATE", "NEW"]
        assert coordinator.log.ledger.cursors[CURSOR].backlog == 1


async def test_a_participant_that_comes_after_the_end_is_refused_when_its_record_is_stored(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        late = coordinator.add_partitions(txn_id, [TOPIC])
        await coordinator.change_status(coordinator.table.get(txn_id), TxnStatus.COMMITTED)
        with pytest.raises(TransactionNotFound):
            await late
        await all_deleted(coordinator)


async def test_an_open_transaction_times_out_also_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        short, _ = await coordinator.new(1, None), await coordinator.new(MINUTE_MS, None)
        await until(lambda: len(coordinator.table) == 1)
        assert coordinator.counters.timed_out == 1
        with pytest.raises(TransactionNotFound):
            await coordinator.end(short, commit=True)
        third = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_subscriptions(third, [(TOPIC, "s")])
        later = broker.factory.clock_ms() + MINUTE_MS + 1
    async with scene(tmp_path, store) as broker:
        broker.factory.clock_ms = lambda: later
        coordinator = await broker.coordinator()
        await until(lambda: len(coordinator.table) == 0)
        assert [each[:3] for each in broker.participants.ended] == [(f"{TOPIC} s", third, False)]
        assert coordinator.counters.timed_out == 2


async def test_a_limit_of_transactions_is_told_as_an_error(tmp_path: Path) -> None:
    settings = replace(TransactionSettings(), max_active_transactions_per_coordinator=2)
    async with scene(tmp_path, MemoryStore(), settings) as broker:
        coordinator = await broker.coordinator()
        beginning = [coordinator.new(MINUTE_MS, None) for _ in range(2)]
        with pytest.raises(TooManyRequests, match="maxActiveTransactionsPerCoordinator is 2"):
            await coordinator.new(MINUTE_MS, None)  # those that are not durable yet count as well
        first, _ = await asyncio.gather(*beginning)
        with pytest.raises(TooManyRequests, match="maxActiveTransactionsPerCoordinator is 2"):
            await coordinator.new(MINUTE_MS, None)
        await coordinator.end(first, commit=False)
        assert await coordinator.new(MINUTE_MS, None) == TxnId(0, 2)


async def test_a_transaction_takes_a_bounded_number_of_participants_and_names(tmp_path: Path) -> None:
    async with scene(tmp_path, MemoryStore()) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        with pytest.raises(NotAllowed, match="10000"):
            await coordinator.add_partitions(txn_id, map(str, range(10_001)))
        with pytest.raises(NotAllowed, match="65536"):
            await coordinator.add_partitions(txn_id, ["t" * 65_537])
        await coordinator.end(txn_id, commit=True)


async def test_another_broker_that_opens_the_log_ends_the_coordinator(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path / "one", store) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        await coordinator.add_partitions(txn_id, [TOPIC])
        broker.participants.away = {TOPIC}
        ending = asyncio.create_task(coordinator.end(txn_id, commit=True))
        await until(lambda: broker.participants.attempts)
        coordinator._lost(RuntimeError("taken over"))  # type: ignore[arg-type]
        with pytest.raises(TransactionCoordinatorNotFound, match="Transaction coordinator with id 0 not found!"):
            await ending
        assert broker.closed == [coordinator]
        assert coordinator.state is CoordinatorState.CLOSED
        with pytest.raises(TransactionCoordinatorNotFound):
            await coordinator.new(MINUTE_MS, None)


async def test_an_append_that_fails_ends_the_coordinator_and_the_next_one_knows_what_is_stored(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store) as broker:
        coordinator = await broker.coordinator()
        txn_id = await coordinator.new(MINUTE_MS, None)
        await broker.factory.close_ledger(coordinator.log.topic.managed_ledger_name)
        with pytest.raises(TransactionCoordinatorNotFound):
            await coordinator.end(txn_id, commit=True)
        assert broker.closed == [coordinator]
        again = await broker.coordinator()
        assert [(each.txn_id, each.status) for each in again.table] == [(txn_id, TxnStatus.OPEN)]
        await again.close()
