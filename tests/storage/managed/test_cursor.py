"""Durable and non-durable cursors: where they stand, how they are reset, what properties they have, and their end."""

from typing import Any

import pytest

from magnetar.storage.managed.managed_ledger_errors import CursorFault, NoSuchCursor
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    LARGE,
    NAME,
    append,
    cursor_ledger,
    factory_of,
    fill,
    node,
    open_one,
    quiet,
    read_all,
    with_entries,
)

# ---- what a cursor says


async def test_a_cursor_starts_at_the_earliest_the_latest_or_a_position() -> None:
    ledger = await open_one(World())
    await fill(ledger, 7)
    earliest = await ledger.open_cursor("e", EARLIEST)
    latest = await ledger.open_cursor("l", LATEST)
    middle = await ledger.open_cursor("m", Position(2, 0))
    assert (earliest.mark_delete, earliest.backlog) == ((1, -1), 7)
    assert (latest.mark_delete, latest.backlog) == ((2, 1), 0)
    assert (middle.mark_delete, middle.backlog) == ((1, 4), 2)
    await fill(ledger, 1, 7)
    assert latest.backlog == 1
    assert await ledger.open_cursor("e", LATEST) is earliest


async def test_cursors_of_an_empty_managed_ledger_get_everything_that_comes() -> None:
    world = World()
    ledger = await open_one(world)
    cursors = [await ledger.open_cursor("e", EARLIEST), await ledger.open_cursor("l", LATEST)]
    await fill(ledger, 3)
    assert [cursor.backlog for cursor in cursors] == [3, 3]
    assert [cursor.next_unacked(EARLIEST) for cursor in cursors] == [(1, 0), (1, 0)]


async def test_the_backlog_follows_from_positions() -> None:
    ledger = await open_one(World())
    await fill(ledger, 12)
    cursor = await ledger.open_cursor("s", EARLIEST)
    assert cursor.ack([(1, 2, None), (2, 4, None), (2, 4, None), (9, 9, None)]) == 2
    assert (cursor.backlog, cursor.number_of_holes, cursor.mark_delete) == (10, 2, (1, -1))
    assert cursor.ack([(1, 0, None), (1, 1, None)]) == 2
    assert (cursor.backlog, cursor.mark_delete) == (8, (1, 2))
    assert cursor.ack_cumulative(2, 3)
    assert (cursor.backlog, cursor.mark_delete) == (2, (2, 4))
    assert cursor.backlog_size == 4, "10 and 11"


async def test_acknowledging_what_is_not_confirmed_does_nothing() -> None:
    world = World()
    ledger = await with_entries(world, 2)
    cursor = await ledger.open_cursor("s", EARLIEST)
    world.hold_appends = True
    ledger.add_entries([b"pending"], lambda result: None)
    assert cursor.ack([(1, 2, None)]) == 0
    assert not cursor.ack_cumulative(1, 2)
    assert cursor.mark_delete == (1, -1)
    assert not cursor.is_dirty


# ---- reset, properties, deletion


async def test_reset_goes_back_and_forth_durably() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 12)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(2, 3, properties={"p": 1})
    cursor.ack([(3, 1, None)])
    await cursor.reset(Position(2, 0))
    assert (cursor.mark_delete, cursor.number_of_holes, cursor.position_properties) == ((1, 4), 0, {})
    await world.bury()
    ledger = await open_one(world)
    cursor = ledger.cursors["s"]
    assert cursor.mark_delete == (1, 4)
    await cursor.reset(LATEST)
    assert (cursor.mark_delete, cursor.backlog) == ((3, 1), 0)
    await cursor.reset(EARLIEST)
    assert (cursor.mark_delete, cursor.backlog) == ((1, -1), 12)
    await cursor.reset(Position(99, 0))
    assert cursor.backlog == 0
    await cursor.reset(Position(2, 77))
    assert cursor.next_unacked(cursor.mark_delete) == (3, 0)
    await cursor.reset(Position(2, 1), [0b100])
    assert (cursor.mark_delete, cursor.ack_set_of(2, 1)) == ((2, 0), [0b100])


async def test_position_properties_are_stored_with_the_mark_delete() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("pulsar.dedup", EARLIEST)
    cursor.ack_cumulative(1, 1, properties={"producer-1": 17})
    await cursor.persisted()
    first, second = cursor_ledger(world, "pulsar.dedup")
    assert not first.properties
    assert [(item.name, item.value) for item in second.properties] == [("producer-1", 17)]
    await world.bury()
    assert (await open_one(world)).cursors["pulsar.dedup"].position_properties == {"producer-1": 17}


async def test_properties_are_never_stored_with_a_later_mark_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a crash could find a snapshot of deduplication, or a compacted ledger, that says less than its
    position."""
    world = World()
    client = world.session()
    ledger = await factory_of(client, LARGE).open(NAME)
    await append(ledger, b"0", b"1", b"2", b"3")
    cursor = await ledger.open_cursor("pulsar.dedup", EARLIEST)
    create_ledger = client.create_ledger

    async def slowly(**arguments: Any) -> Any:
        cursor.ack_cumulative(1, 3, properties={"at": 3})
        return await create_ledger(**arguments)

    monkeypatch.setattr(client, "create_ledger", slowly)
    cursor.ack_cumulative(1, 1, properties={"at": 1})
    await cursor.persisted()
    stored = [entry for entry in cursor_ledger(world, "pulsar.dedup") if entry.properties]
    assert stored
    assert all(entry.properties[0].value == entry.entryId for entry in stored), stored
    assert cursor.position_properties == {"at": 3}


async def test_the_subscriptions_properties_can_be_replaced_in_any_state() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", EARLIEST, {"a": "1"})
    await cursor.set_properties({"b": "2"})
    cursor.ack_cumulative(1, 1)
    await cursor.persisted()
    await cursor.set_properties({"c": "3"})
    assert (await node(world)).cursorsLedgerId == 2
    await world.bury()
    again = (await open_one(world)).cursors["s"]
    assert (again.properties, again.mark_delete) == ({"c": "3"}, (1, 1))


async def test_a_deleted_cursor_leaves_nothing() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("a/b", EARLIEST)
    cursor.ack_cumulative(1, 1)
    await cursor.persisted()
    cursor.ack_cumulative(1, 2)
    await ledger.delete_cursor("a/b")
    await quiet(world)
    assert world.deleted == [2]
    assert await world.store.children(f"/managed-ledgers/{NAME}") == []
    assert not ledger.cursors
    with pytest.raises(NoSuchCursor):
        await ledger.delete_cursor("a/b")
    cursor.ack_cumulative(1, 3)
    with pytest.raises(CursorFault, match="closed"):
        await cursor.persisted()
    fresh = await ledger.open_cursor("a/b", EARLIEST)
    assert fresh.mark_delete == (1, -1)


async def test_names_of_cursors_are_encoded_in_the_store() -> None:
    world = World()
    ledger = await open_one(world)
    await ledger.open_cursor("untouched/e")
    assert await world.store.children(f"/managed-ledgers/{NAME}") == ["untouched%2Fe"]
    assert list((await open_one(world)).cursors) == ["untouched/e"]


# ---- readers


async def test_a_non_durable_cursor_is_never_stored() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 7)
    cursor = ledger.new_non_durable_cursor(Position(1, 3))
    assert (cursor.durable, cursor.mark_delete, cursor.backlog) == (False, (1, 2), 4)
    world.steps.names.clear()
    cursor.ack_cumulative(2, 0)
    await cursor.persisted()
    await cursor.reset(EARLIEST)
    await cursor.close()
    await quiet(world)
    assert world.steps.names == []
    assert cursor.backlog == 7
    assert ledger.new_non_durable_cursor(LATEST).backlog == 0
    assert ledger.new_non_durable_cursor(Position(LATEST.ledger_id, 2**48 - 1)).backlog == 0
    assert await read_all(ledger) == [b"%d" % number for number in range(7)]
