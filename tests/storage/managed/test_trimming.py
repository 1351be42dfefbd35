"""Which ledgers disappear, when, and in which order of steps."""

from dataclasses import replace

from magnetar.metadata.paths import managed_ledger_path
from magnetar.storage.ledger.ledger_errors import LedgerMetadataFault
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    DELETE_AT_ONCE,
    NAME,
    Clock,
    append,
    factory_of,
    fill,
    open_one,
    quiet,
    read_all,
)


async def test_ledgers_go_when_the_slowest_durable_cursor_passed_them() -> None:
    world = World()
    ledger = await open_one(world, DELETE_AT_ONCE)
    slow, fast = await ledger.open_cursor("slow", EARLIEST), await ledger.open_cursor("fast", EARLIEST)
    await fill(ledger, 17)
    assert len(world.ledgers) == 4
    fast.ack_cumulative(*ledger.last_confirmed)
    await quiet(world)
    assert world.deleted == []
    slow.ack_cumulative(1, 3)
    await quiet(world)
    assert world.deleted == [], "its own ledger is still needed"
    slow.ack_cumulative(2, 1)
    await quiet(world)
    assert world.deleted == [1]
    slow.ack_cumulative(2, 4)
    await ledger.maintain()
    await quiet(world)
    assert sorted(world.deleted) == [1, 2], "fully passed"
    assert ledger.first_position == (3, 0)
    assert (slow.backlog, fast.backlog, ledger.number_of_entries) == (7, 0, 7)


async def test_the_list_is_written_before_the_ledgers_are_deleted() -> None:
    world = World()
    ledger = await open_one(world, DELETE_AT_ONCE)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 12)
    world.steps.names.clear()
    cursor.ack_cumulative(3, 0)
    await quiet(world)
    names = [name for name in world.steps.names if name in ("delete ledger", f"put {managed_ledger_path(NAME)}")]
    assert names == [f"put {managed_ledger_path(NAME)}", "delete ledger", "delete ledger"]


async def test_without_durable_cursors_closed_ledgers_are_not_kept_and_readers_go_on_after_them() -> None:
    world = World()
    ledger = await open_one(world, DELETE_AT_ONCE)
    await fill(ledger, 3)
    reader = ledger.new_non_durable_cursor(EARLIEST)
    reader.ack([(1, 1, None)])
    await fill(ledger, 5, 3)
    await quiet(world)
    assert list(world.ledgers) == [1, 2], "until the retention check"
    await ledger.maintain()
    await quiet(world)
    assert list(world.ledgers) == [2]
    assert (reader.backlog, reader.number_of_holes) == (3, 0)
    assert reader.next_unacked(reader.mark_delete) == (2, 0)
    assert await read_all(ledger, Position(1, 0)) == [b"5", b"6", b"7"]
    ledger.release(reader)


async def test_retention_by_time_keeps_consumed_ledgers_until_the_check() -> None:
    world, clock = World(), Clock()
    config = replace(DELETE_AT_ONCE, retention_time_minutes=10, retention_size_mb=-1)
    factory = factory_of(world.session(), config, clock)
    ledger = await factory.open(NAME)
    await fill(ledger, 6)
    clock.advance(300)
    await fill(ledger, 5, 6)
    clock.advance(299)
    await factory.tick()
    await quiet(world)
    assert world.deleted == []
    clock.advance(121)
    await factory.tick()
    await quiet(world)
    assert world.deleted == [1]


async def test_retention_by_size_deletes_the_oldest_beyond_it() -> None:
    world = World()
    config = replace(
        DELETE_AT_ONCE, retention_time_minutes=-1, retention_size_mb=1, managed_ledger_max_entries_per_ledger=2
    )
    ledger = await open_one(world, config)
    for _ in range(8):
        await append(ledger, bytes(300_000))
    await ledger.maintain()
    await quiet(world)
    assert sorted(world.deleted) == [1, 2], "what stays is at least a mebibyte"


async def test_an_idle_consumed_ledger_is_closed_and_deleted_after_the_minimum_age() -> None:
    world, clock = World(), Clock()
    config = replace(DELETE_AT_ONCE, managed_ledger_min_ledger_rollover_time_minutes=10)
    factory = factory_of(world.session(), config, clock)
    ledger = await factory.open(NAME)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 3)
    cursor.ack_cumulative(1, 2)
    await quiet(world)
    clock.advance(599)
    await factory.tick()
    await quiet(world)
    assert 1 in world.ledgers
    clock.advance(121)
    await factory.tick()
    await quiet(world)
    assert 1 not in world.ledgers
    assert ledger.number_of_entries == 0
    assert ledger.last_confirmed == (1, 2)
    assert cursor.backlog == 0
    late = await ledger.open_cursor("late", LATEST)
    await fill(ledger, 1)
    assert (cursor.backlog, late.backlog) == (1, 1)
    await world.bury()
    again = await open_one(world, config)
    assert [again.cursors[name].backlog for name in ("s", "late")] == [1, 1]


async def test_cursors_count_right_after_a_restart_that_finds_no_ledger() -> None:
    world = World()
    factory = factory_of(world.session(), DELETE_AT_ONCE)
    ledger = await factory.open(NAME)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 3)
    cursor.ack_cumulative(1, 2)
    await ledger.roll()
    await quiet(world)
    await factory.close()
    assert not world.ledgers
    again = await open_one(world, DELETE_AT_ONCE)
    cursor = again.cursors["s"]
    assert (cursor.mark_delete, cursor.backlog) == ((1, 2), 0)
    latest = await again.open_cursor("l", LATEST)
    await fill(again, 2)
    assert (cursor.backlog, latest.backlog) == (2, 2)
    assert cursor.next_unacked(cursor.mark_delete) == again.first_position
    cursor.ack([(*again.first_position, None)])
    assert (cursor.mark_delete, cursor.backlog) == (again.first_position, 1)


async def test_a_deletion_that_fails_is_tried_again() -> None:
    world, clock = World(), Clock()
    factory = factory_of(world.session(), DELETE_AT_ONCE, clock)
    ledger = await factory.open(NAME)
    world.delete_error = LedgerMetadataFault("store gone")
    await fill(ledger, 7)
    await ledger.maintain()
    await quiet(world)
    assert 1 in world.ledgers
    assert factory.reaper.waiting == 1
    world.delete_error = None
    clock.advance(120)
    await factory.tick()
    await quiet(world)
    assert world.deleted == [1]


async def test_a_new_retention_applies_at_once() -> None:
    world = World()
    ledger = await open_one(world, replace(DELETE_AT_ONCE, retention_time_minutes=-1, retention_size_mb=-1))
    await fill(ledger, 12)
    await quiet(world)
    assert world.deleted == []
    ledger.configure(DELETE_AT_ONCE)
    await quiet(world)
    assert sorted(world.deleted) == [1, 2]


async def test_deleting_the_slowest_cursor_frees_what_it_held() -> None:
    world = World()
    ledger = await open_one(world, DELETE_AT_ONCE)
    await ledger.open_cursor("slow", EARLIEST)
    await fill(ledger, 12)
    assert ledger.stats().held_by == "cursor slow"
    await ledger.delete_cursor("slow")
    await quiet(world)
    assert sorted(world.deleted) == [1, 2]
    assert ledger.stats().held_by == "current"


async def test_without_durable_cursors_the_last_ledger_stays_however_it_was_closed() -> None:
    """A reader from the earliest message finds what was written last: after a ledger that is full, one that is too old,
    a restart with a kill, and a clean one."""
    world, clock = World(), Clock()
    factory = factory_of(world.session(), DELETE_AT_ONCE, clock)
    ledger = await factory.open(NAME)
    await fill(ledger, 5)
    await ledger.maintain()
    await quiet(world)
    assert ledger.stats().current_ledger_id == -1, "it is full"
    assert len(await read_all(ledger)) == 5
    assert ledger.stats().held_by == "last"

    await fill(ledger, 2, 5)
    clock.advance(240 * 60)
    await factory.tick()
    await quiet(world)
    assert ledger.stats().current_ledger_id == -1, "it is too old"
    assert await read_all(ledger) == [b"5", b"6"]

    await world.bury()
    for _ in range(2):
        factory = factory_of(world.session(), DELETE_AT_ONCE, clock)
        ledger = await factory.open(NAME)
        clock.advance(600)
        await factory.tick()
        await quiet(world)
        assert await read_all(ledger) == [b"5", b"6"]
        await factory.close()

    ledger = await open_one(world, DELETE_AT_ONCE, clock)
    await fill(ledger, 1, 7)
    assert await read_all(ledger) == [b"5", b"6", b"7"]
    await ledger.maintain()
    await quiet(world)
    assert await read_all(ledger) == [b"7"]
