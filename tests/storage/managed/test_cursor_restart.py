"""What is stored of a cursor, and what a restart finds."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from magnetar.metadata.paths import cursor_path
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies, ReadFault, WriteFault
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.managed_ledger_errors import CursorFault, ManagedLedgerFenced
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    LARGE,
    NAME,
    START_MS,
    Clock,
    append,
    cursor_ledger,
    factory_of,
    fill,
    node,
    open_one,
    quiet,
    with_entries,
)
from tests.waiting import until


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
    assert cursor.ledger_last_entry == 2
    assert cursor_ledger(world)[-1].entryId == 3
    assert world.ledgers[2].custom_metadata["pulsar/cursor"] == b"s"


async def test_a_state_that_the_former_owner_moves_to_the_node_meanwhile_is_found() -> None:
    world = World()
    former = await with_entries(world, 9)
    cursor = await former.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(1, 2)
    await cursor.persisted()
    assert (await node(world)).cursorsLedgerId == 2
    factory = factory_of(world.session())
    open_ledger = factory.bookkeeper.open_ledger

    async def open_after_the_former_owner_has_closed(ledger_id: int, *, recover: bool) -> Any:
        if ledger_id == 2:
            await cursor.close()
            await until(lambda: 2 not in world.ledgers)
        return await open_ledger(ledger_id, recover=recover)

    with patch.object(factory.bookkeeper, "open_ledger", open_after_the_former_owner_has_closed):
        again = await factory.open(NAME)
    assert again.cursors["s"].mark_delete == (1, 2)


async def test_a_cursor_that_the_former_owner_creates_after_the_takeover_is_found() -> None:
    world = World()
    world.watches_work = False
    former = await with_entries(world, 9)
    now = await open_one(world)
    cursor = await former.open_cursor("s", Position(1, 3), {"k": "v"})
    again = await now.open_cursor("s", EARLIEST)
    assert again.mark_delete == cursor.mark_delete == (1, 2)
    assert again.properties == {"k": "v"}
    again.ack_cumulative(1, 4)
    await again.persisted()
    assert now.cursors["s"] is again


async def test_an_owner_of_before_does_not_touch_a_cursor_that_the_new_owner_created() -> None:
    world = World()
    world.watches_work = False
    former = await with_entries(world, 9)
    now = await open_one(world)
    cursor = await now.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(1, 2)
    await cursor.persisted()
    with pytest.raises(ManagedLedgerFenced):
        await former.open_cursor("s", EARLIEST)
    cursor.ack_cumulative(1, 3)
    await cursor.persisted()  # Its cursor ledger was not fenced.
    assert former.state is AppendState.FENCED


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
    cursor.ack([(1, 0, None), (1, 3, None)])
    await cursor.persisted()
    cursor.ack([(1, 2, None)])
    await factory.close()
    stored = await node(world)
    assert (stored.cursorsLedgerId, stored.markDeleteEntryId) == (-1, 0)
    assert len(stored.individualDeletedMessages) == 1
    assert list(world.ledgers) == [1]
    again = (await open_one(world)).cursors["s"]
    assert (again.mark_delete, again.properties) == ((1, 0), {"k": "v"})
    assert again.is_acked(1, 2)
    assert again.is_acked(1, 3)


@pytest.mark.parametrize("stored_before", [True, False])
async def test_a_clean_close_leaves_half_acknowledged_batches_where_apaches_broker_reads_them(
    stored_before: bool,
) -> None:
    """Apache's broker reads them from the last entry of a cursor ledger, and passes over those in the node."""
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 5)
    cursor = await ledger.open_cursor("s", EARLIEST, {"k": "v"})
    cursor.ack([(1, 0, None), (1, 3, [1])])
    if stored_before:
        await cursor.persisted()
    await factory.close()
    stored = await node(world)
    assert stored.cursorsLedgerId == 2
    assert world.ledgers[2].closed
    last = cursor_ledger(world)[-1]
    assert last.entryId == 0
    (batch,) = last.batchedEntryDeletionIndexInfo
    assert (batch.position.entryId, list(batch.deleteSet)) == (3, [1])
    again = (await open_one(world)).cursors["s"]
    assert (again.mark_delete, again.ack_set_of(1, 3), again.properties) == ((1, 0), [1], {"k": "v"})


async def test_half_acknowledged_batches_that_apaches_broker_left_in_the_node_move_to_a_ledger() -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 5)
    await ledger.open_cursor("s", EARLIEST)
    await factory.close()
    left = await node(world)
    half = left.batchedEntryDeletionIndexInfo.add(deleteSet=[0b100])
    half.position.ledgerId, half.position.entryId = 1, 2
    await world.store.put(cursor_path(NAME, "s"), left.SerializeToString())
    for _ in range(2):
        factory = factory_of(world.session())
        cursor = (await factory.open(NAME)).cursors["s"]
        assert cursor.ack_set_of(1, 2) == [0b100]
        await factory.close()
        stored = await node(world)
        assert stored.cursorsLedgerId != -1
        assert len(cursor_ledger(world)[-1].batchedEntryDeletionIndexInfo) == 1


async def test_half_acknowledged_batches_stay_in_the_node_when_no_ledger_takes_them() -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 3, [1])])
    world.append_error, world.create_error = WriteFault("full"), NotEnoughBookies("full")
    await factory.close()
    world.append_error = world.create_error = None
    assert (await node(world)).cursorsLedgerId == -1
    again = (await open_one(world)).cursors["s"]
    assert again.ack_set_of(1, 3) == [1]


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
