"""Appends that fail, other owners, and ledgers that are missing or have an id too low, on ledgers in memory."""

import asyncio

import pytest

from magnetar.storage.ledger.ledger_errors import LedgerMetadataFault as LedgerMetadataFault
from magnetar.storage.ledger.ledger_errors import MetadataVersion, NotEnoughBookies, WriteFault
from magnetar.storage.managed import append_queue
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.managed_ledger_errors import (
    AppendFault,
    ManagedLedgerClosed,
    ManagedLedgerFenced,
    TooManyPending,
)
from pulsar_proto.ids import EARLIEST
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import DELETE_AT_ONCE, NAME, append, factory_of, fill, open_one, quiet, read_all
from tests.waiting import until


async def test_after_a_failed_append_all_that_waits_fails_and_the_next_group_gets_a_new_ledger() -> None:
    world = World()
    factory = factory_of(client := world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 2)
    world.hold_appends = True
    results: list[AddResult] = []
    for number in range(3):
        ledger.add_entries([b"lost %d" % number], results.append)
    world.append_error = WriteFault("no space left on device")
    world.hold_appends = False
    client.confirm()
    await until(lambda: len(results) == 3)
    ledger.add_entries([b"too late"], results.append)
    await until(lambda: len(results) == 4)
    assert all(isinstance(result.error, AppendFault) and not result.runs for result in results)
    assert "no space left on device" in str(results[0].error)
    world.append_error = None
    await quiet(world)
    assert (await append(ledger, b"2")).runs == [(2, 0, 1)]
    assert await read_all(ledger) == [b"0", b"1", b"2"]
    assert world.ledgers[1].closed


async def test_reading_goes_on_while_appending_fails() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 7)
    world.append_error = WriteFault("disk full")
    world.create_error = NotEnoughBookies("all read-only")
    for _ in range(3):
        assert isinstance((await append(ledger, b"x")).error, AppendFault)
        assert await read_all(ledger) == [b"%d" % number for number in range(7)]
    with pytest.raises(AppendFault, match="read-only"):
        await ledger.open_ledger()
    world.append_error = world.create_error = None
    await ledger.open_ledger()
    assert ledger.state is AppendState.OPEN
    await fill(ledger, 1, 7)
    assert await read_all(ledger) == [b"%d" % number for number in range(8)]


async def test_a_ledger_that_cannot_be_closed_is_closed_before_the_next_one_opens() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 1)
    world.append_error = WriteFault("bookie gone")
    world.close_error = LedgerMetadataFault("store gone")
    assert (await append(ledger, b"x")).error is not None
    world.append_error = None
    assert isinstance((await append(ledger, b"y")).error, AppendFault)
    assert len(world.ledgers) == 1
    world.close_error = None
    await fill(ledger, 1, 1)
    assert world.ledgers[1].closed
    assert await read_all(ledger) == [b"0", b"1"]


async def test_what_waits_for_a_ledger_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_queue, "PENDING_ENTRIES_MAX", 3)
    ledger = await open_one(World())
    results: list[AddResult] = []
    for number in range(5):
        ledger.add_entries([b"%d" % number], results.append)
    await until(lambda: len(results) == 5)
    assert all(isinstance(result.error, TooManyPending) for result in results)
    await fill(ledger, 2)


async def test_a_second_owner_stops_the_first_one() -> None:
    world = World()
    world.watches_work = False
    first = await open_one(world)
    await fill(first, 3)
    second = await open_one(world)
    assert isinstance((await append(first, b"mine")).error, ManagedLedgerFenced)
    assert first.state is AppendState.FENCED
    assert isinstance((await append(first, b"mine")).error, ManagedLedgerFenced)
    await fill(second, 3, 3)
    assert await read_all(second) == [b"%d" % number for number in range(6)]
    await first.close()
    assert isinstance((await append(first, b"mine")).error, ManagedLedgerClosed)


async def test_an_owner_between_two_ledgers_is_stopped_by_the_list() -> None:
    world = World()
    world.watches_work = False
    first = await open_one(world)
    await fill(first, 3)
    await first.roll()
    second = await open_one(world)
    assert isinstance((await append(first, b"mine")).error, ManagedLedgerFenced)
    await fill(second, 1, 3)
    await quiet(world)
    assert await read_all(second) == [b"0", b"1", b"2", b"3"]
    assert world.deleted == [2], "the ledger that the first owner made is deleted again"


async def test_a_ledger_with_an_id_below_the_others_is_not_used() -> None:
    """Ids are drawn in blocks, so an owner that comes back may still hold old ones."""
    world = World()
    world.ids = iter([20, 21, 19, 18, 30])
    ledger = await open_one(world)
    await fill(ledger, 11)
    await quiet(world)
    assert [info.ledger_id for info in ledger.stats().ledgers] == [20, 21, 30]
    assert sorted(world.deleted) == [18, 19]


async def test_a_ledger_id_is_also_above_those_where_cursors_stand() -> None:
    world = World()
    world.ids = iter([20, 7, 21])
    factory = factory_of(world.session(), DELETE_AT_ONCE)
    ledger = await factory.open(NAME)
    await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 1)
    ledger.cursors["s"].ack_cumulative(20, 0)
    await ledger.roll()
    await quiet(world)
    await factory.close()
    ledger = await open_one(world, DELETE_AT_ONCE)
    await fill(ledger, 1)
    assert ledger.cursors["s"].backlog == 1
    assert world.deleted == [20, 7]


async def test_a_missing_last_ledger_is_dropped() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 7)
    del world.ledgers[2]
    again = await open_one(world)
    assert await read_all(again) == [b"0", b"1", b"2", b"3", b"4"]


async def test_closing_ends_when_another_owner_is_noticed_meanwhile() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 1)
    world.close_error = MetadataVersion("another owner closed the ledger")
    handle = ledger._appender.handle
    assert handle is not None
    closing = asyncio.create_task(ledger.close())
    await until(lambda: not handle.is_open)
    ledger._appender.fence(ManagedLedgerFenced(NAME, "another owner wrote the list"))
    await until(closing.done)
    assert ledger.state is AppendState.CLOSED
    assert isinstance((await append(ledger, b"too late")).error, ManagedLedgerClosed)
