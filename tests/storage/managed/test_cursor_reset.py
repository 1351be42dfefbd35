"""A cursor that is moved: it stands at the new place once that is stored, and at the old one when it cannot be
stored."""

import asyncio
import random
from dataclasses import replace

import pytest

from magnetar.metadata.errors import MetadataError
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies, WriteFault
from magnetar.storage.managed.cursor import REPLICATED, Cursor
from magnetar.storage.managed.managed_ledger_errors import CursorFault, ManagedLedgerError
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    CONFIG,
    DELETE_AT_ONCE,
    NAME,
    RATE_LIMITED,
    Clock,
    factory_of,
    fill,
    open_one,
    quiet,
    read_all,
)

SMALL_LEDGERS = replace(RATE_LIMITED, managed_ledger_max_entries_per_ledger=5)


def place(cursor: Cursor) -> tuple[object, ...]:
    return cursor.mark_delete, cursor.backlog, cursor.number_of_holes, dict(cursor.position_properties)


def break_storage(world: World, arrives: bool) -> None:
    world.append_error, world.create_error = WriteFault("full"), NotEnoughBookies("full")
    world.put_error, world.put_arrives = MetadataError("/x", "connection lost"), arrives


def mend_storage(world: World) -> None:
    world.append_error = world.create_error = world.put_error = None


@pytest.mark.parametrize("arrives", [False, True], ids=["not stored", "stored, and the answer lost"])
async def test_a_refused_reset_leaves_the_cursor_and_what_is_stored_of_it(arrives: bool) -> None:
    world, clock = World(), Clock()
    factory = factory_of(world.session(), SMALL_LEDGERS, clock)
    ledger = await factory.open(NAME)
    await fill(ledger, 12)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(2, 3, properties={"p": 1, REPLICATED: 1})
    cursor.ack([(3, 1, None)])
    await cursor.persisted()
    before = place(cursor)
    break_storage(world, arrives)
    with pytest.raises(CursorFault):
        await cursor.reset(EARLIEST)
    await quiet(world)
    assert place(cursor) == before
    mend_storage(world)
    clock.advance(2)
    await factory.tick()
    await quiet(world)
    assert not cursor.is_dirty
    await world.bury()
    assert place((await open_one(world)).cursors["s"]) == before


async def test_until_a_reset_is_stored_the_cursor_stands_where_it_stood() -> None:
    world = World()
    client = world.session()
    ledger = await factory_of(client).open(NAME)
    await fill(ledger, 12)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(3, 0)
    await cursor.persisted()
    await quiet(world)
    world.hold_appends = True
    moving = asyncio.ensure_future(cursor.reset(Position(1, 2)))
    await quiet(world)
    assert cursor.mark_delete == (3, 0)
    cursor.ack_cumulative(3, 1)
    waiting = asyncio.ensure_future(cursor.persisted())
    await quiet(world)
    assert not moving.done()
    assert not waiting.done()
    assert cursor.needed_from == (1, 1)
    world.hold_appends = False
    client.confirm()
    await asyncio.gather(moving, waiting)
    assert cursor.mark_delete == cursor.needed_from == (1, 1), "the reset is later than what came before its answer"
    await world.bury()
    assert (await open_one(world)).cursors["s"].mark_delete == (1, 1)


@pytest.mark.parametrize("target", [EARLIEST, LATEST])
async def test_what_a_reset_promises_and_what_it_may_go_back_to_is_not_trimmed(target: Position) -> None:
    """The storage takes nothing while the cursor is to be moved, and meanwhile the ledgers are trimmed."""
    world = World()
    client = world.session()
    ledger = await factory_of(client, DELETE_AT_ONCE).open(NAME)
    other = await ledger.open_cursor("holds", EARLIEST)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 12)
    cursor.ack_cumulative(2, 0)
    await cursor.persisted()
    await quiet(world)
    world.hold_appends = True
    moving = asyncio.ensure_future(cursor.reset(target))
    await quiet(world)
    assert not moving.done()
    await ledger.delete_cursor(other.name)
    await ledger.maintain()
    await quiet(world)
    kept = await read_all(ledger)
    assert kept[0] == (b"0" if target == EARLIEST else b"5")
    world.hold_appends = False
    client.confirm()
    await moving


@pytest.mark.parametrize("seed", range(40))
async def test_random_resets_and_acknowledgements_on_storage_that_fails(seed: int) -> None:
    """Claims: a refused reset changes nothing that is seen; a successful one is seen; in the end what is seen is
    stored."""
    rng = random.Random(seed)
    world, clock = World(seed), Clock()
    factory = factory_of(world.session(), CONFIG, clock)
    ledger = await factory.open(NAME)
    await fill(ledger, 12)
    cursor = await ledger.open_cursor("s", EARLIEST)
    world.fail_rate = 0.3
    for _ in range(15):
        if rng.random() < 0.5:
            cursor.ack_cumulative(rng.randint(1, 3), rng.randint(0, 4))
            continue
        await quiet(world)  # no other change comes between the look and the reset
        before = place(cursor)
        target = Position(rng.randint(1, 2), rng.randint(0, 4))
        try:
            await cursor.reset(target)
        except ManagedLedgerError:
            assert place(cursor) == before
        else:
            assert cursor.next_unacked(EARLIEST) == target
        clock.advance(rng.choice((0, 2)))
        await factory.tick()
    world.fail_rate = 0.0
    await quiet(world)
    await cursor.persisted()
    await world.bury()
    assert place((await open_one(world)).cursors["s"]) == place(cursor)
