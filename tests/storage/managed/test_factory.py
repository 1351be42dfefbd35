"""The factory: opening, listing, deleting and closing, its timer, and the bounds of what managed ledgers share."""

import asyncio

import pytest

from magnetar.metadata.errors import StoreClosedError
from magnetar.metadata.paths import managed_ledger_path
from magnetar.storage.ledger.ledger_errors import LedgerRecoveryFailed, NoSuchLedger
from magnetar.storage.managed import ledger_reaper
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.ledger_reaper import LedgerReaper
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import (
    AppendFault,
    EntriesLost,
    ManagedLedgerClosed,
    MetaStoreFault,
    NoSuchManagedLedger,
)
from magnetar.storage.managed.read_handles import ReadHandles
from pulsar_proto.ids import EARLIEST, Position
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    CONFIG,
    NAME,
    RATE_LIMITED,
    Clock,
    append,
    factory_of,
    fill,
    open_one,
    quiet,
    read_all,
)
from tests.waiting import until


async def test_the_timer_stores_what_was_acknowledged_last_and_ends_with_the_factory() -> None:
    world, clock = World(), Clock()
    client = world.session()
    factory = ManagedLedgerFactory(
        client.metadata(),
        client.as_client(),
        RATE_LIMITED,
        clock_ms=clock.wall_ms,
        monotonic_s=clock.monotonic_s,
        tick_seconds=0.001,
    )
    ledger = await factory.open(NAME)
    await append(ledger, b"a", b"b", b"c")
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    cursor.ack([(1, 1, None)])
    clock.advance(0.5)
    await until(lambda: not cursor.is_dirty)
    await factory.close()
    assert factory._timer is None


async def test_the_factory_opens_once_lists_and_deletes() -> None:
    world = World()
    factory = factory_of(world.session())
    with pytest.raises(NoSuchManagedLedger):
        await factory.open(NAME, create=False)
    first, second = await asyncio.gather(factory.open(NAME), factory.open(NAME))
    assert first is second
    await factory.open(NAME + "2")
    assert await factory.list("public/default/persistent") == [NAME, NAME + "2"]
    assert await factory.list("public/none/persistent") == []
    await fill(first, 6)
    cursor = await first.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    await factory.delete(NAME)
    await factory.reaper.idle()
    assert not world.ledgers, "data and cursor ledgers are gone"
    assert not await factory.exists(NAME)
    assert await factory.exists(NAME + "2")
    with pytest.raises(NoSuchManagedLedger):
        await factory.delete(NAME)
    fresh = await factory.open(NAME)
    assert fresh is not first
    assert not fresh.cursors


async def test_an_opening_without_create_does_not_spoil_one_with_it() -> None:
    factory = factory_of(World().session())
    results = await asyncio.gather(
        factory.open(NAME, create=False), factory.open(NAME), factory.open(NAME), return_exceptions=True
    )
    assert isinstance(results[0], NoSuchManagedLedger)
    assert isinstance(results[1], ManagedLedger)
    assert results[1] is results[2]


async def test_those_who_wait_open_it_themselves_when_the_caller_that_began_is_cancelled() -> None:
    factory = factory_of(World().session())
    first, *others = (asyncio.create_task(factory.open(NAME)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    ledgers = await asyncio.gather(*others)
    assert first.cancelled()
    assert ledgers[0] is ledgers[1] is await factory.open(NAME)
    assert (await append(ledgers[0], b"x")).error is None


async def test_everybody_who_waits_for_an_opening_hears_why_it_failed() -> None:
    world = World()
    factory = factory_of(world.session())
    await world.store.create(managed_ledger_path(NAME), b"\xff no record", make_parents=True)
    results = await asyncio.gather(*(factory.open(NAME) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in results] == [MetaStoreFault] * 3


async def test_closing_twice_is_closing_once_and_nothing_opens_afterwards() -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 1)
    opening = asyncio.create_task(factory.open(NAME + "2"))
    await asyncio.sleep(0)
    await factory.close()
    await factory.close()
    with pytest.raises(ManagedLedgerClosed):
        await opening
    with pytest.raises(ManagedLedgerClosed):
        await factory.open(NAME)


async def test_closing_waits_for_the_maintenance_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, began, go = Clock(), asyncio.Event(), asyncio.Event()

    async def maintain(self: ManagedLedger) -> None:
        began.set()
        await go.wait()

    monkeypatch.setattr(ManagedLedger, "maintain", maintain)
    world = World()
    factory = factory_of(world.session(), clock=clock)
    await factory.open(NAME)
    clock.advance(CONFIG.retention_check_interval_in_seconds)
    ticking = asyncio.ensure_future(factory.tick())
    await began.wait()
    closing = asyncio.ensure_future(factory.close())
    await quiet(world)
    assert not closing.done()
    go.set()
    await asyncio.gather(ticking, closing)


async def test_a_closed_managed_ledger_is_opened_anew() -> None:
    world = World()
    factory = factory_of(world.session())
    first = await factory.open(NAME)
    await fill(first, 2)
    await factory.close_ledger(NAME)
    second = await factory.open(NAME)
    assert second is not first
    assert await read_all(second) == [b"0", b"1"]


async def test_a_store_that_fails_is_said_so() -> None:
    world = World()
    factory = factory_of(world.session())
    await world.store.close()
    with pytest.raises(MetaStoreFault) as caught:
        await factory.open(NAME)
    assert isinstance(caught.value.__cause__, StoreClosedError)
    with pytest.raises(MetaStoreFault):
        await factory.exists(NAME)


async def test_a_damaged_record_keeps_the_managed_ledger_closed() -> None:
    world = World()
    await world.store.create(f"/managed-ledgers/{NAME}", b"\x0a\x7f", make_parents=True)
    with pytest.raises(MetaStoreFault, match="damaged record"):
        await open_one(world)
    record = await world.store.get(f"/managed-ledgers/{NAME}")
    assert record is not None
    assert record.value == b"\x0a\x7f", "nothing was overwritten"


async def test_a_ledger_that_cannot_be_recovered_now_keeps_the_managed_ledger_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 2)
    client = world.session()

    async def fails(*_: object, **__: object) -> object:
        raise LedgerRecoveryFailed("bookie gone")

    factory = factory_of(client)
    with monkeypatch.context() as patch:
        patch.setattr(client, "open_ledger", fails)
        with pytest.raises(AppendFault, match="bookie gone"):
            await factory.open(NAME)
    assert await read_all(await factory.open(NAME)) == [b"0", b"1"]


async def test_a_missing_ledger_in_the_middle_fails_its_reads_only() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 12)
    del world.ledgers[2]
    assert len(await ledger.read(Position(1, 0), 10, 10_000)) == 5
    with pytest.raises(EntriesLost):
        await ledger.read(Position(2, 0), 10, 10_000)
    assert len(await ledger.read(Position(3, 0), 10, 10_000)) == 2


async def test_handles_are_bounded_and_a_failed_opening_is_tried_again() -> None:
    world = World()
    client = world.session()
    handles = ReadHandles(client.as_client(), handles_max=2)
    ledger = await open_one(world)
    await fill(ledger, 16)
    for ledger_id in (1, 2, 3, 1, 1, 3):
        await handles.get(ledger_id)
    assert [opened for opened, _ in world.opens] == [1, 2, 3, 1]
    assert len(handles) == 2
    for _ in range(2):
        with pytest.raises(NoSuchLedger):
            await handles.get(99)
    assert [opened for opened, _ in world.opens].count(99) == 2


async def test_a_ledger_that_its_owner_could_not_close_is_recovered_when_it_is_read() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 7)
    world.ledgers[1].closed = False
    assert len(await read_all(ledger)) == 7
    assert world.opens == [(1, False), (1, True)]
    assert world.ledgers[1].closed


async def test_ledgers_waiting_to_be_deleted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_reaper, "GRAVES_MAX", 3)
    world = World()
    await fill(await open_one(world, CONFIG), 25)
    reaper = LedgerReaper(world.session().as_client())
    reaper.bury([1, 2], "t/n/persistent/a")
    reaper.bury([3], "t/n/persistent/a", "cursor s")
    reaper.bury([4], "t/n/persistent/b")
    assert reaper.waiting == 3
    assert (reaper.waiting_of("t/n/persistent/a"), reaper.waiting_of("t/n/persistent/b")) == ([1, 2, 3], [])
    await reaper.idle()
    await quiet(world)
    assert sorted(world.deleted) == [1, 2, 3]
    assert reaper.waiting == 0
