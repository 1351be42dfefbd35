"""Durable and non-durable cursors: what is stored, when, and what a restart finds."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from metadata.paths import cursor_path
from pulsar_proto.ids import EARLIEST, LATEST, Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from storage.ledger.errors import NotEnoughBookies, ReadFault, WriteFault
from storage.managed.errors import CursorFault, ManagedLedgerClosed, NoSuchCursor
from storage.managed.managed_ledger import ManagedLedger
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    CONFIG,
    NAME,
    START_MS,
    Clock,
    append,
    factory_of,
    fill,
    open_one,
    quiet,
    read_all,
    until,
)

LARGE = replace(CONFIG, managed_ledger_max_entries_per_ledger=1_000)
RATE_LIMITED = replace(LARGE, managed_ledger_default_mark_delete_rate_limit=0.1)


async def node(world: World, name: str = "s") -> pb.ManagedCursorInfo:
    record = await world.store.get(cursor_path(NAME, name))
    assert record is not None
    return pb.ManagedCursorInfo.FromString(record.value)


def cursor_ledger(world: World, name: str = "s") -> list[pb.PositionInfo]:
    """The entries of the newest cursor ledger."""
    *_, ledger = (
        ledger for ledger in world.ledgers.values() if ledger.custom_metadata.get("pulsar/cursor") == name.encode()
    )
    return [pb.PositionInfo.FromString(entry[ledger.codec.payload_offset :]) for entry in ledger.entries]


async def with_entries(world: World, count: int, config: object = LARGE, clock: Clock | None = None) -> ManagedLedger:
    ledger = await open_one(world, config, clock)  # type: ignore[arg-type]
    await append(ledger, *[b"%d" % number for number in range(count)])
    return ledger


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


# ---- how it is stored


async def test_a_new_cursor_is_a_node_without_a_ledger() -> None:
    world = World()
    ledger = await with_entries(world, 2)
    await ledger.open_cursor("s", EARLIEST, {"k": "v"})
    assert await node(world) == pb.ManagedCursorInfo(
        cursorsLedgerId=-1,
        markDeleteLedgerId=1,
        markDeleteEntryId=-1,
        lastActive=START_MS,
        cursorProperties=[pb.StringProperty(name="k", value="v")],
    )


async def test_the_first_stored_acknowledgement_takes_the_steps_of_apaches_broker() -> None:
    world = World()
    ledger = await with_entries(world, 9)
    cursor = await ledger.open_cursor("s", EARLIEST)
    world.steps.names.clear()
    cursor.ack_cumulative(1, 2)
    cursor.ack([(1, 5, None)])
    await cursor.persisted()
    assert world.steps.names[:3] == ["create ledger", "append", f"put {cursor_path(NAME, 's')}"]
    stored = await node(world)
    assert (stored.cursorsLedgerId, stored.markDeleteEntryId) == (2, -1), "the old position, without ranges"
    assert not stored.individualDeletedMessages
    first, second = cursor_ledger(world)
    assert (first.entryId, second.entryId) == (-1, 2), "the old mark-delete, then the new one"
    assert len(first.individualDeletedMessages) == len(second.individualDeletedMessages) == 1
    world.steps.names.clear()
    cursor.ack([(1, 3, None)])
    await cursor.persisted()
    assert world.steps.names == ["append"], "later ones are only appended"
    assert cursor_ledger(world)[-1].entryId == 3
    assert world.ledgers[2].custom_metadata["pulsar/cursor"] == b"s"


async def test_holes_and_batch_indexes_survive_a_crash() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 13)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None), (1, 3, None), (2, 0, None), (2, 1, [0b1101]), (3, 2, [-1, 1])])
    await cursor.persisted()
    cursor.ack([(2, 4, None)])
    await cursor.persisted()
    await world.bury()
    again = (await open_one(world)).cursors["s"]
    assert again.mark_delete == (1, 0)
    assert [tuple(acked) for acked in again.holes(10)] == [(1, 3, 3), (2, 0, 0), (2, 4, 4)]
    assert again.ack_set_of(2, 1) == [0b1101]
    assert again.ack_set_of(3, 2) == [-1, 1]
    assert again.backlog == 9


async def test_a_clean_close_puts_everything_into_the_node_and_deletes_the_ledger() -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 5)
    cursor = await ledger.open_cursor("s", EARLIEST, {"k": "v"})
    cursor.ack([(1, 0, None), (1, 3, [1])])
    await cursor.persisted()
    cursor.ack([(1, 2, None)])
    await factory.close()
    stored = await node(world)
    assert (stored.cursorsLedgerId, stored.markDeleteEntryId) == (-1, 0)
    assert len(stored.individualDeletedMessages) == len(stored.batchedEntryDeletionIndexInfo) == 1
    assert list(world.ledgers) == [1]
    again = (await open_one(world)).cursors["s"]
    assert (again.mark_delete, again.ack_set_of(1, 3), again.properties) == ((1, 0), [1], {"k": "v"})
    assert again.is_acked(1, 2)


async def test_when_a_cursor_was_used_last_is_known_after_a_restart() -> None:
    world = World()
    clock = Clock()
    ledger = await with_entries(world, 3, clock=clock)
    cursor = await ledger.open_cursor("s", EARLIEST)
    clock.now_ms += 5_000
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    clock.now_ms += 1_000_000
    again = (await open_one(world, LARGE, clock)).cursors["s"]
    assert again.last_active_ms == START_MS + 5_000
    again.touch(clock.now_ms)
    assert again.last_active_ms == clock.now_ms


async def test_a_close_with_more_ranges_than_a_node_takes_ends_in_a_closed_cursor_ledger() -> None:
    world = World()
    config = replace(LARGE, managed_ledger_max_unacked_ranges_to_persist_in_metadata_store=2)
    factory = factory_of(world.session(), config)
    ledger = await factory.open(NAME)
    await append(ledger, *[b"x"] * 10)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, entry, None) for entry in (1, 3, 5)])
    await cursor.persisted()
    cursor.ack([(1, 7, None)])
    await factory.close()
    stored = await node(world)
    assert stored.cursorsLedgerId == 2
    assert world.ledgers[2].closed
    assert len(cursor_ledger(world)[-1].individualDeletedMessages) == 4
    again = (await open_one(world, config)).cursors["s"]
    assert again.number_of_holes == 4


async def test_a_close_of_an_unchanged_cursor_writes_nothing() -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 2)
    await ledger.open_cursor("s", EARLIEST)
    world.steps.names.clear()
    await factory.close()
    assert world.steps.names == ["close ledger"]


async def test_after_a_recovery_the_next_change_makes_a_new_cursor_ledger_and_deletes_the_old_one() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 2, None)])
    await cursor.persisted()
    await world.bury()
    ledger = await open_one(world)
    cursor = ledger.cursors["s"]
    assert (await node(world)).cursorsLedgerId == 2
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    await quiet(world)
    assert (await node(world)).cursorsLedgerId == 3
    assert world.deleted == [2]
    (only,) = cursor_ledger(world)
    assert (only.entryId, len(only.individualDeletedMessages)) == (0, 1), (
        "the old position said more than a mark-delete"
    )


async def test_a_cursor_ledger_is_replaced_when_it_is_full_or_old() -> None:
    world, clock = World(), Clock()
    config = replace(LARGE, managed_ledger_cursor_max_entries_per_ledger=3)
    ledger = await with_entries(world, 20, config, clock)
    cursor = await ledger.open_cursor("s", EARLIEST)
    for entry in range(6):
        cursor.ack([(1, entry, None)])
        await cursor.persisted()
    await quiet(world)
    assert world.deleted == [2, 3]
    clock.advance(4 * 3600)
    cursor.ack([(1, 6, None)])
    await cursor.persisted()
    await quiet(world)
    assert world.deleted == [2, 3, 4]
    await world.bury()
    assert (await open_one(world)).cursors["s"].mark_delete == (1, 6)


async def test_damaged_entries_at_the_end_of_a_cursor_ledger_are_passed_over() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    for entry in range(3):
        cursor.ack([(1, entry, None)])
        await cursor.persisted()
    await world.bury()
    stored = world.ledgers[2]
    stored.entries[-1] = stored.codec.pack_run(len(stored.entries) - 1, 0, 0, [b"\x08"])[0]
    assert (await open_one(world)).cursors["s"].mark_delete == (1, 1)


async def test_without_its_ledger_a_cursor_goes_back_to_the_nodes_position() -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", Position(1, 2))
    cursor.ack_cumulative(1, 3)
    await cursor.persisted()
    await world.bury()
    del world.ledgers[2]
    again = (await open_one(world)).cursors["s"]
    assert again.mark_delete == (1, 1)


async def test_a_cursor_ledger_that_cannot_be_read_now_keeps_the_managed_ledger_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    ledger = await with_entries(world, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(1, 3)
    await cursor.persisted()
    await world.bury()
    factory = factory_of(world.session())
    with monkeypatch.context() as patch:

        async def unreadable(*_: object) -> list[bytes]:
            raise ReadFault("bookie is starting")

        patch.setattr("tests.storage.managed.fake_bookkeeper.read_entries", unreadable)
        with pytest.raises(CursorFault, match="bookie is starting"):
            await factory.open(NAME)
    assert (await factory.open(NAME)).cursors["s"].mark_delete == (1, 3)


# ---- when it is stored


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


async def test_an_owner_whose_cursor_ledger_was_recovered_elsewhere_is_fenced() -> None:
    world = World()
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
    """Else a crash finds a snapshot of deduplication, or a compacted ledger, that says less than its position."""
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
