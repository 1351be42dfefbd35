"""When a cursor is stored, who waits for it, and what a failure to store it leaves."""

import asyncio
from dataclasses import replace

import pytest

from magnetar.storage.ledger.ledger_errors import NotEnoughBookies, WriteFault
from magnetar.storage.managed.managed_ledger_errors import CursorFault, ManagedLedgerClosed
from pulsar_proto.ids import EARLIEST
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    LARGE,
    NAME,
    RATE_LIMITED,
    Clock,
    append,
    cursor_ledger,
    factory_of,
    node,
    open_one,
    quiet,
    with_entries,
)
from tests.waiting import until


async def test_storing_is_rate_limited_and_the_last_change_is_stored_within_a_second() -> None:
    world, clock = World(), Clock()
    factory = factory_of(world.session(), RATE_LIMITED, clock)
    ledger = await factory.open(NAME)
    await append(ledger, *[b"x"] * 100)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await until(lambda: not cursor.is_dirty)
    for entry in range(1, 50):
        cursor.ack([(1, entry, None)])
        clock.advance(0.1)
        await factory.tick()
        await asyncio.sleep(0)
    await quiet(world)
    assert len(cursor_ledger(world)) == 2, "nothing more in five seconds of steady acknowledging"
    clock.advance(0.4)
    await factory.tick()
    await quiet(world)
    assert not cursor.is_dirty
    assert cursor_ledger(world)[-1].entryId == 49


async def test_steady_acknowledging_is_stored_at_the_rate() -> None:
    world, clock = World(), Clock()
    config = replace(LARGE, managed_ledger_default_mark_delete_rate_limit=1.0)
    factory = factory_of(world.session(), config, clock)
    ledger = await factory.open(NAME)
    await append(ledger, *[b"x"] * 100)
    cursor = await ledger.open_cursor("s", EARLIEST)
    for entry in range(50):
        cursor.ack([(1, entry, None)])
        clock.advance(0.1)
        await factory.tick()
        await quiet(world)
    assert [entry.entryId for entry in cursor_ledger(world)] == [-1, 0, 9, 19, 29, 39, 49], "at 0, 1 … 5 seconds"


async def test_acknowledging_a_batch_index_alone_is_stored() -> None:
    world, clock = World(), Clock()
    factory = factory_of(world.session(), RATE_LIMITED, clock)
    ledger = await factory.open(NAME)
    await append(ledger, b"batch")
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, [0b110])])
    await cursor.persisted()
    await world.bury()
    assert (await open_one(world)).cursors["s"].ack_set_of(1, 0) == [0b110]


async def test_waiters_share_one_write_and_a_waiter_gets_what_came_before_it() -> None:
    world = World()
    ledger = await with_entries(world, 50)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    world.steps.names.clear()

    async def ack(entry: int) -> None:
        cursor.ack([(1, entry, None)])
        await cursor.persisted()
        assert cursor_ledger(world)[-1].entryId >= entry

    await asyncio.gather(*(ack(entry) for entry in range(1, 50)))
    assert world.steps.names == ["append"]
    called: list[object] = []
    cursor.when_persisted(called.append)
    assert called == [None], "nothing is left to store"


async def test_a_cancelled_waiter_harms_nobody() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    waiters = [asyncio.create_task(cursor.persisted()) for _ in range(2)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await waiters[1]
    assert not cursor.is_dirty


async def test_when_no_ledger_takes_the_position_the_node_does() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    world.append_error, world.create_error = WriteFault("full"), NotEnoughBookies("full")
    cursor.ack([(1, 2, None)])
    await cursor.persisted()
    stored = await node(world)
    assert (stored.cursorsLedgerId, stored.markDeleteEntryId, len(stored.individualDeletedMessages)) == (-1, 0, 1)
    await world.bury()
    world.append_error = world.create_error = None
    assert (await open_one(world)).cursors["s"].is_acked(1, 2)


async def test_a_failure_reaches_the_waiters_and_is_tried_again_by_the_tick() -> None:
    world, clock = World(), Clock()
    config = replace(LARGE, managed_ledger_max_unacked_ranges_to_persist_in_metadata_store=0)
    factory = factory_of(world.session(), config, clock)
    ledger = await factory.open(NAME)
    await append(ledger, *[b"x"] * 10)
    cursor = await ledger.open_cursor("s", EARLIEST)
    world.create_error = NotEnoughBookies("full")
    cursor.ack([(1, 5, None)])
    with pytest.raises(CursorFault, match="full"):
        await cursor.persisted()
    assert cursor.is_acked(1, 5), "in memory it stays"
    world.create_error = None
    await factory.tick()
    await quiet(world)
    assert cursor.is_dirty, "not at once"
    clock.advance(1)
    await factory.tick()
    await quiet(world)
    assert not cursor.is_dirty
    await world.bury()
    assert (await open_one(world)).cursors["s"].is_acked(1, 5)


async def test_a_state_that_cannot_be_encoded_is_told_to_the_waiters_and_holds_nothing_up() -> None:
    world, clock = World(), Clock()
    factory = factory_of(world.session(), LARGE, clock)
    ledger = await factory.open(NAME)
    await append(ledger, *[b"x"] * 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    cursor.ack_cumulative(1, 1, properties={"beyond 64 bits": 1 << 70})
    with pytest.raises(CursorFault, match="internal error"):
        await cursor.persisted()
    cursor.ack_cumulative(1, 2, properties={"beyond 64 bits": 1})
    clock.advance(1)
    await factory.tick()
    await cursor.persisted()
    await ledger.close()
    assert (await open_one(world)).cursors["s"].mark_delete == (1, 2)


async def test_an_owner_whose_cursor_ledger_was_recovered_elsewhere_is_fenced() -> None:
    world = World()
    world.watches_work = False
    first = await with_entries(world, 9)
    cursor = await first.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(1, 2)
    await cursor.persisted()
    second = await open_one(world)
    cursor.ack_cumulative(1, 5)
    with pytest.raises(Exception, match="another owner"):
        await cursor.persisted()
    assert first.state.value == "fenced"
    mine = second.cursors["s"]
    assert mine.mark_delete == (1, 2)
    mine.ack_cumulative(1, 4)
    await mine.persisted()
    await first.close()
    assert (await open_one(world)).cursors["s"].mark_delete == (1, 4)
    with pytest.raises(ManagedLedgerClosed):
        await first.open_cursor("other")
