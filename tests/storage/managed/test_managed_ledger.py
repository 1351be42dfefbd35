"""Appending, reading, rolling over and ending, and the list that is stored meanwhile, on ledgers in memory."""

import asyncio
from dataclasses import replace

from magnetar.metadata.paths import managed_ledger_path
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerClosed, ManagedLedgerTerminated
from pulsar_proto.ids import EARLIEST, LATEST, Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import CONFIG, NAME, Clock, append, factory_of, fill, open_one, quiet, read_all
from tests.waiting import until

PATH = managed_ledger_path(NAME)


async def stored_list(world: World) -> pb.ManagedLedgerInfo:
    record = await world.store.get(PATH)
    assert record is not None
    return pb.ManagedLedgerInfo.FromString(record.value)


async def test_entries_come_back_in_order_over_many_ledgers() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 13)
    assert await read_all(ledger) == [b"%d" % number for number in range(13)]
    assert [len(stored.entries) for stored in world.ledgers.values()] == [5, 5, 3]
    assert ledger.number_of_entries == 13
    assert ledger.total_size == 10 + 2 * 3
    assert ledger.last_confirmed == (3, 2)
    assert ledger.first_position == (1, 0)


async def test_opening_makes_no_ledger_and_the_list_names_one_before_its_first_entry() -> None:
    world = World()
    ledger = await open_one(world)
    assert not world.ledgers
    assert ledger.last_confirmed == (-1, -1)
    assert ledger.is_after_last(ledger.first_position)
    await append(ledger, b"x")
    names = world.steps.names
    assert names.index("create ledger") < names.index(f"put {PATH}") < names.index("append")


async def test_the_stored_list_is_what_apaches_broker_writes() -> None:
    world, clock = World(), Clock()
    ledger = await open_one(world, clock=clock)
    await fill(ledger, 11)
    info = await stored_list(world)
    assert [
        (item.ledgerId, item.entries, item.size, item.timestamp, item.HasField("entries")) for item in info.ledgerInfo
    ] == [(1, 5, 5, clock.now_ms, True), (2, 5, 5, clock.now_ms, True), (3, 0, 0, 0, False)]
    assert world.ledgers[1].custom_metadata == {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": NAME.encode(),
    }


async def test_a_group_is_confirmed_as_one_run_and_listeners_hear_of_it_afterwards() -> None:
    ledger = await open_one(World())
    events: list[object] = []

    def confirmed() -> None:
        events.append(ledger.last_confirmed)

    ledger.on_append(confirmed)
    ledger.add_entries([b"a", b"b"], lambda result: events.append(result.runs))
    ledger.add_entries([b"c"], lambda result: events.append(result.runs))
    assert events == [], "never from inside"
    await until(lambda: len(events) == 4)
    assert events == [[(1, 0, 2)], (1, 1), [(1, 2, 1)], (1, 2)]
    ledger.not_on_append(confirmed)
    await append(ledger, b"d")
    assert len(events) == 4


async def test_a_group_that_crosses_the_limit_stays_in_one_ledger() -> None:
    ledger = await open_one(World())
    assert (await append(ledger, *[b"x"] * 7)).runs == [(1, 0, 7)]
    assert (await append(ledger, b"y")).runs == [(2, 0, 1)]


async def test_groups_that_come_during_a_rollover_keep_their_order() -> None:
    world = World()
    ledger = await open_one(world)
    results: list[AddResult] = []
    for number in range(40):
        ledger.add_entries([b"%d" % number, b"+"], results.append)
    await until(lambda: len(results) == 40)
    assert [payload for payload in await read_all(ledger) if payload != b"+"] == [b"%d" % n for n in range(40)]
    runs = [run for result in results for run in result.runs]
    assert runs == sorted(runs)
    assert len(world.ledgers) == 14, "six entries each, the first group beyond the limit included"


async def test_a_full_ledger_is_kept_until_the_minimum_age() -> None:
    world, clock = World(), Clock()
    ledger = await open_one(world, replace(CONFIG, managed_ledger_min_ledger_rollover_time_minutes=10), clock)
    await fill(ledger, 20)
    assert len(world.ledgers) == 1
    clock.advance(600)
    await fill(ledger, 2)
    assert [len(stored.entries) for stored in world.ledgers.values()] == [21, 1]


async def test_a_ledger_is_full_by_size() -> None:
    world = World()
    config = replace(CONFIG, managed_ledger_max_entries_per_ledger=1000, managed_ledger_max_size_per_ledger_mbytes=1)
    ledger = await open_one(world, config)
    for _ in range(5):
        await append(ledger, bytes(400_000))
    assert [len(stored.entries) for stored in world.ledgers.values()] == [3, 2]


async def test_old_and_idle_ledgers_are_closed_by_maintenance() -> None:
    world, clock = World(), Clock()
    ledger = await open_one(world, clock=clock)
    await fill(ledger, 1)
    clock.advance(239 * 60)
    await ledger.maintain()
    assert not world.ledgers[1].closed
    clock.advance(60)
    await ledger.maintain()
    assert world.ledgers[1].closed
    assert ledger.state is AppendState.IDLE
    assert [item.entries for item in (await stored_list(world)).ledgerInfo] == [1]
    await fill(ledger, 1, 1)
    assert await read_all(ledger) == [b"0", b"1"]


async def test_reading_starts_at_the_next_existing_entry_and_stays_in_one_ledger() -> None:
    ledger = await open_one(World())
    await fill(ledger, 12)
    run = await ledger.read(Position(1, 3), 100, 10_000)
    assert (run.ledger_id, run.first_entry_id, len(run)) == (1, 3, 2)
    run = await ledger.read(Position(1, 5), 100, 10_000)
    assert (run.ledger_id, run.first_entry_id, len(run)) == (2, 0, 5)
    assert (await ledger.read(EARLIEST, 2, 10_000)).first_entry_id == 0
    assert len(await ledger.read(EARLIEST, 2, 10_000)) == 2
    assert len(await ledger.read(EARLIEST, 5, 1)) == 1
    end = await ledger.read(ledger.next_position(ledger.last_confirmed), 10, 10_000)
    assert not end.entries


async def test_reading_never_goes_beyond_what_is_confirmed() -> None:
    world = World()
    factory = factory_of(client := world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 1)
    world.hold_appends = True
    ledger.add_entries([b"unconfirmed"], lambda result: None)
    assert await read_all(ledger) == [b"0"]
    assert ledger.is_after_last(Position(1, 1))
    world.hold_appends = False
    client.confirm()
    await until(lambda: ledger.last_confirmed == (1, 1))
    assert await read_all(ledger) == [b"0", b"unconfirmed"]


async def test_handles_of_closed_ledgers_are_opened_once_and_without_recovery() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 12)
    await asyncio.gather(*(read_all(ledger) for _ in range(5)))
    await read_all(ledger)
    assert sorted(world.opens) == [(1, False), (2, False)]


async def test_positions_step_over_ends_of_ledgers() -> None:
    ledger = await open_one(World())
    await fill(ledger, 7)
    assert ledger.next_position(Position(1, 4)) == (2, 0)
    assert ledger.previous_position(Position(2, 0)) == (1, 4)
    assert ledger.previous_position(Position(1, 0)) == (1, -1)
    assert ledger.next_position(Position(2, 1)) == (2, 2)
    assert ledger.entries_between(Position(1, 1), Position(2, 0)) == 4
    assert ledger.entries_between(EARLIEST, LATEST) == 7


async def test_a_search_finds_the_first_entry_that_satisfies() -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 23)
    for target in range(23):
        found = await ledger.find_first(lambda payload, target=target: int(payload) >= target)  # type: ignore[misc]
        run = await ledger.read(found, 1, 1)
        assert run.entries[0][run.payload_offset :] == b"%d" % target
    assert await ledger.find_first(lambda payload: False) == ledger.next_position(ledger.last_confirmed)
    world.reads.clear()
    await ledger.find_first(lambda payload: int(payload) >= 11)
    assert len(world.reads) <= 5


async def test_a_search_in_an_empty_managed_ledger_finds_the_end() -> None:
    ledger = await open_one(World())
    assert await ledger.find_first(lambda payload: True) == ledger.first_position


async def test_terminating_confirms_what_is_in_flight_and_refuses_the_rest() -> None:
    world = World()
    ledger = await open_one(world)
    results: list[AddResult] = []
    await fill(ledger, 1)
    ledger.add_entries([b"last"], results.append)
    terminating = asyncio.create_task(ledger.terminate())
    await asyncio.sleep(0)
    ledger.add_entries([b"late"], results.append)
    assert await terminating == (1, 1)
    assert results[0].error is None
    assert isinstance(results[1].error, ManagedLedgerTerminated)
    info = await stored_list(world)
    assert (info.terminatedPosition.ledgerId, info.terminatedPosition.entryId) == (1, 1)
    assert await ledger.terminate() == (1, 1)
    again = await open_one(world)
    assert again.state is AppendState.TERMINATED
    assert again.terminated == again.last_confirmed == (1, 1)
    assert isinstance((await append(again, b"x")).error, ManagedLedgerTerminated)
    assert await read_all(again) == [b"0", b"last"]


async def test_properties_are_kept_and_changed() -> None:
    world = World()
    ledger = await open_one(world)
    await ledger.set_properties({"pulsar.topic.epoch": "1", "k": "v"})
    await fill(ledger, 6)
    await ledger.set_properties({"k": None, "pulsar.topic.epoch": "2"})
    again = await open_one(world)
    assert again.properties == {"pulsar.topic.epoch": "2"}


async def test_fields_of_later_versions_survive() -> None:
    world = World()
    info = pb.ManagedLedgerInfo()
    item = info.ledgerInfo.add(ledgerId=1, entries=2, size=9, timestamp=77)
    item.offloadContext.uidMsb = 5
    item.properties.add(key="p", value="q")
    unknown_in_ledger, unknown = b"\x92\x03\x03abc", b"\x9a\x03\x02xy"
    value = info.SerializeToString()
    item_bytes = item.SerializeToString() + unknown_in_ledger
    value = b"\x0a" + bytes([len(item_bytes)]) + item_bytes + unknown
    await world.store.create(PATH, value, make_parents=True)
    writer = await world.session().create_ledger(custom_metadata={}, ensemble_size=1, write_quorum=1, ack_quorum=1)
    writer.append([b"a", b"bc"], lambda append: None)
    await quiet(world)
    await writer.close()

    ledger = await open_one(world)
    await fill(ledger, 6)
    record = await world.store.get(PATH)
    assert record is not None
    assert unknown_in_ledger in record.value
    assert record.value.endswith(unknown)
    stored = pb.ManagedLedgerInfo.FromString(record.value)
    assert stored.ledgerInfo[0].offloadContext.uidMsb == 5
    assert stored.ledgerInfo[0].properties[0].key == "p"
    assert [(item.ledgerId, item.entries) for item in stored.ledgerInfo] == [(1, 2), (2, 5), (3, 0)]


async def test_close_closes_the_ledger_and_refuses_appends() -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 2)
    await factory.close()
    assert world.ledgers[1].closed
    assert isinstance((await append(ledger, b"x")).error, ManagedLedgerClosed)
    assert await read_all(await open_one(world)) == [b"0", b"1"]


async def test_stats_say_what_there_is() -> None:
    world, clock = World(), Clock()
    ledger = await open_one(world, clock=clock)
    await fill(ledger, 7)
    await ledger.open_cursor("slow", EARLIEST)
    stats = ledger.stats()
    assert (stats.entries, stats.entries_added, stats.current_ledger_id, stats.current_ledger_entries) == (7, 7, 2, 2)
    assert stats.ledger_created_ms == clock.now_ms
    assert [info.entries for info in stats.ledgers] == [5, 0]
    assert stats.held_by == "cursor slow"
