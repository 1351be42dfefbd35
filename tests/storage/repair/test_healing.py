"""Auto-recovery as a whole notices lost bookies and heals their ledgers, on fake bookies in virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from magnetar.metadata import paths
from magnetar.storage.ledger.ledger_errors import LedgerFenced
from magnetar.storage.repair.ledger_checker import LedgerChecker
from magnetar.storage.repair.repair_rules import NextStep
from magnetar.storage.repair.replication_worker import ReplicationWorker
from pulsar_proto.records.ledger_record import LedgerState
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.repair.repair_scene import RepairScene, append, until_true
from tests.storage.repair.virtual_loop import run


def scene(program: Callable[[RepairScene], Awaitable[None]], bookies: int = 5, **settings: float) -> None:
    async def whole() -> None:
        made = RepairScene(**settings)  # type: ignore[arg-type]
        await made.setup(bookies)
        try:
            await program(made)
        finally:
            await made.close()

    run(whole())


@pytest.mark.parametrize("sizes", [(3, 3, 2), (3, 2, 2), (2, 2, 2), (4, 2, 1)], ids=str)
@pytest.mark.parametrize("delay_max", [0.0, 0.02])
def test_ledgers_of_a_lost_bookie_are_copied_to_others(sizes: tuple[int, int, int], delay_max: float) -> None:
    async def program(s: RepairScene) -> None:
        ledgers = [(await s.write(sizes, number * 37)).ledger_id for number in range(6)]
        await s.start_recovery()
        await s.kill("b0")
        await s.healed(*ledgers)

    scene(program, bookies=6, delay_max=delay_max, seed=3)


def test_bookies_that_were_lost_before_anybody_looked_are_noticed_too() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 100)
        await s.kill(handle.metadata.ensembles[0][1][0])
        await s.start_recovery()
        await s.healed(handle.ledger_id)

    scene(program)


def test_a_bookie_that_comes_back_within_the_delay_costs_nothing() -> None:
    async def program(s: RepairScene) -> None:
        recovery = await s.start_recovery(lost_bookie_recovery_delay=60)
        handle = await s.write((3, 3, 2), 10)
        await until_true(lambda: recovery.auditor is not None and recovery.auditor.audits == 1)
        before = handle.metadata.ensembles
        await s.kill(before[0][1][0])
        await asyncio.sleep(50)
        await s.register(before[0][1][0])
        await asyncio.sleep(200)
        assert recovery.auditor is not None
        assert recovery.auditor.audits == 1
        assert (await s.metadata(handle.ledger_id)).ensembles == before
        assert await s.book.recovery_delay() == 60

    scene(program)


def test_an_open_ledgers_writer_has_the_grace_period_then_the_ledger_is_recovered_and_healed() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 10, close=False)
        await s.start_recovery(open_ledger_rereplication_grace_period=30_000)
        loop = asyncio.get_running_loop()
        killed_at = loop.time()
        await s.kill(handle.metadata.ensembles[0][1][1])
        await s.healed(handle.ledger_id)
        assert loop.time() - killed_at >= 30
        metadata = await s.metadata(handle.ledger_id)
        assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, 9)
        assert await s.lacks(handle.ledger_id) == []
        with pytest.raises(LedgerFenced):
            await append(handle, 1)

    scene(program)


def test_a_writer_that_replaces_the_bookie_in_time_goes_on() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 10, close=False)
        await s.start_recovery()
        await s.kill(handle.metadata.ensembles[0][1][1])
        await until_true(s.marked)
        await append(handle, 1)
        await append(handle, 10)
        await s.healed()
        await append(handle, 10)
        await handle.close()
        metadata = await s.metadata(handle.ledger_id)
        assert metadata.last_entry_id == 30
        assert len(metadata.ensembles) == 2
        assert await s.lacks(handle.ledger_id) == []

    scene(program)


def test_without_a_spare_bookie_the_ledger_waits_until_one_comes() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 10)
        await s.start_recovery()
        await s.kill("b1")
        await until_true(s.marked)
        await asyncio.sleep(100)
        assert await s.marked() == [handle.ledger_id]
        s.fakes.bookies["b3"] = type(s.fakes.bookies["b0"])("b3")
        await s.register("b3")
        await s.healed(handle.ledger_id)

    scene(program, bookies=3)


def test_a_bookie_that_comes_back_with_its_copies_heals_by_itself() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 10)
        await s.start_recovery()
        await s.kill("b1")
        await until_true(s.marked)
        await s.register("b1")
        await s.healed(handle.ledger_id)

    scene(program, bookies=3)


def test_a_bookie_that_lost_entries_gets_them_again_when_there_is_no_other() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        del s.fakes.bookies["b1"].ledgers[handle.ledger_id].entries[19]
        s.fakes.bookies["b2"].damage(handle.ledger_id, 0)
        await s.start_recovery(auditor_periodic_check_interval=604_800)
        await s.healed(handle.ledger_id)
        assert set((await s.metadata(handle.ledger_id)).ensembles[0][1]) == {"b0", "b1", "b2"}

    scene(program, bookies=3)


def test_the_check_of_all_ledgers_comes_again_after_its_interval() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        recovery = await s.start_recovery(auditor_periodic_check_interval=300)
        await until_true(lambda: recovery.auditor is not None and recovery.auditor.checks == 1)
        await recovery.stop()
        s.fakes.bookies[handle.metadata.ensembles[0][1][0]].damage(handle.ledger_id, 19)
        began = asyncio.get_running_loop().time()
        next_one = await s.start_recovery("r1", auditor_periodic_check_interval=300)
        await until_true(lambda: next_one.auditor is not None and next_one.auditor.checks == 1)
        assert asyncio.get_running_loop().time() - began > 290, "the former auditor's check counts"
        await s.healed(handle.ledger_id)

    scene(program)


def test_while_auto_recovery_is_disabled_nothing_is_marked_or_healed() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        await s.book.disable()
        await s.start_recovery()
        await s.kill(handle.metadata.ensembles[0][1][0])
        await s.book.mark(handle.ledger_id, ["b9"])
        await asyncio.sleep(100)
        assert await s.book.get(handle.ledger_id) is not None
        assert await s.lacks(handle.ledger_id)
        await s.book.enable()
        await s.healed(handle.ledger_id)

    scene(program)


def test_a_mark_of_a_ledger_that_is_deleted_goes_away() -> None:
    async def program(s: RepairScene) -> None:
        await s.start_recovery()
        await s.book.mark(12345, ["b9"])
        await s.healed()

    scene(program)


def test_a_read_only_bookie_is_not_lost_and_gets_no_copies() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        members = handle.metadata.ensembles[0][1]
        others = [name for name in s.fakes.names() if name not in members]
        await s.make_read_only(members[0])
        await s.make_read_only(others[0])
        await s.start_recovery()
        await s.kill(members[1])
        await s.healed(handle.ledger_id)
        assert set((await s.metadata(handle.ledger_id)).ensembles[0][1]) == {members[0], members[2], others[1]}
        assert await s.lacks(handle.ledger_id) == []

    scene(program)


def test_ledgers_on_a_read_only_bookie_are_not_marked() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        recovery = await s.start_recovery()
        await until_true(lambda: recovery.auditor is not None and recovery.auditor.audits == 1)
        await s.make_read_only(handle.metadata.ensembles[0][1][0])
        assert recovery.auditor is not None
        assert await recovery.auditor.audit() == 0

    scene(program)


def test_a_mark_that_grows_while_its_ledger_is_healed_stays_for_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        looks = 0
        heal = ReplicationWorker._heal

        async def marked_meanwhile(worker: ReplicationWorker, ledger_id: int) -> NextStep:
            nonlocal looks
            looks += 1
            step = await heal(worker, ledger_id)
            if looks == 1:
                await s.book.mark(ledger_id, ["b9"])
            return step

        monkeypatch.setattr(ReplicationWorker, "_heal", marked_meanwhile)
        await s.book.mark(handle.ledger_id, ["b8"])
        await s.start_recovery()
        await s.healed(handle.ledger_id)
        assert looks == 2

    scene(program)


def test_several_workers_share_the_work_and_one_auditor_follows_another() -> None:
    async def program(s: RepairScene) -> None:
        ledgers = [(await s.write((3, 2, 2), 20)).ledger_id for _ in range(40)]
        recoveries = [await s.start_recovery(f"r{number}") for number in range(3)]
        await until_true(lambda: recoveries[0].auditor is not None)
        assert [recovery.auditor is not None for recovery in recoveries] == [True, False, False]
        await s.kill("b0")
        await s.healed(*ledgers)
        healed = [recovery.worker.healed for recovery in recoveries if recovery.worker is not None]
        assert len([number for number in healed if number]) > 1
        await recoveries[0].stop()
        await until_true(lambda: recoveries[1].auditor is not None)
        assert recoveries[2].auditor is None
        await s.kill("b1")
        await s.healed(*ledgers)

    scene(program, bookies=7, delay_max=0.01, seed=1)


def test_writing_the_recovery_delay_again_triggers_an_audit() -> None:
    async def program(s: RepairScene) -> None:
        recovery = await s.start_recovery()
        await until_true(lambda: recovery.auditor is not None and recovery.auditor.audits == 1)
        await s.book.trigger_audit()
        await until_true(lambda: recovery.auditor is not None and recovery.auditor.audits == 2, 5)

    scene(program)


def test_a_bookie_that_is_busy_for_a_moment_lacks_nothing() -> None:
    async def program(s: RepairScene) -> None:
        handle = await s.write((3, 3, 2), 20)
        busy = s.fakes.bookies[handle.metadata.ensembles[0][1][0]]
        busy.rc_of_read = BookieRc.ETOOMANYREQUESTS
        checker = LedgerChecker(s.client)
        checking = asyncio.create_task(checker.check(await checker.open(handle.ledger_id)))
        await asyncio.sleep(1.5)
        busy.rc_of_read = BookieRc.EOK
        assert await checking == []
        busy.rc_of_read = BookieRc.ETOOMANYREQUESTS
        (damaged,) = await checker.check(await checker.open(handle.ledger_id))
        assert damaged.missing == {0: busy.bookie_id}, "but not for ever"

    scene(program)


def test_copies_go_to_the_rack_that_lacks_them() -> None:
    async def program(s: RepairScene) -> None:
        racks = {"b0": "/r1", "b1": "/r2", "b2": "/r1", "b3": "/r2"}
        record = {"default": {bookie: {"rack": rack} for bookie, rack in racks.items()}}
        await s.store.create(paths.BOOKIE_RACKS, json.dumps(record).encode())
        recovery = await s.start_recovery(auditor_periodic_placement_policy_check_interval=60)

        async def racks_used() -> set[int]:
            records = [await s.metadata(ledger_id) for ledger_id in ledgers]
            return {len({racks[bookie] for bookie in record.ensembles[0][1]}) for record in records}

        ledgers = [(await s.write((2, 2, 2), 5)).ledger_id for _ in range(12)]
        assert await racks_used() == {2}
        await s.kill("b1")
        await s.healed(*ledgers)
        assert await racks_used() == {2}
        assert recovery.auditor is not None
        assert await recovery.auditor.check_placement() == 0

    scene(program, bookies=4)
