"""Entries that no bookie has any more: reads there fail, or go on behind them when autoSkipNonRecoverableData is on."""

import logging
from dataclasses import replace
from random import Random

import pytest

from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.gaps import GAPS_MAX, Gap, Gaps
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import EntriesLost, EntryReadFault
from pulsar_proto.ids import EARLIEST, Position
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import CONFIG, DELETE_AT_ONCE, NAME, factory_of, fill, open_one, quiet

SKIPPING = replace(CONFIG, auto_skip_non_recoverable_data=True, managed_ledger_max_entries_per_ledger=20)
WAITING = replace(SKIPPING, auto_skip_non_recoverable_data=False)


def positions_of(ledgers: LedgerList) -> list[Position]:
    return [ledgers.entry_at(rank) for rank in range(ledgers.entries)]


def gaps_in(positions: list[Position], lost: set[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Returns (ledger, first, last) of each run of lost entries within a ledger."""
    runs: list[tuple[int, int, int]] = []
    for position in positions:
        if position not in lost:
            continue
        if runs and runs[-1][0] == position.ledger_id and runs[-1][2] == position.entry_id - 1:
            runs[-1] = (position.ledger_id, runs[-1][1], position.entry_id)
        else:
            runs.append((position.ledger_id, position.entry_id, position.entry_id))
    return runs


async def consume(ledger: ManagedLedger, cursor: Cursor, random: Random) -> list[Position]:
    """Reads everything behind the cursor and acknowledges what comes."""
    got: list[Position] = []
    at = cursor.next_unacked(cursor.mark_delete)
    while (run := await ledger.read(at, random.randint(1, 9), 1_000_000)).entries:
        entry_ids = range(run.first_entry_id, run.end_entry_id)
        got += [Position(run.ledger_id, each) for each in entry_ids if not cursor.is_acked(run.ledger_id, each)]
        cursor.ack([(*position, None) for position in got])
        at = Position(run.ledger_id, run.end_entry_id)
    return got


def lose(random: Random, positions: list[Position]) -> set[tuple[int, int]]:
    """Draws some runs of entries, which may be whole ledgers, the first entry or the last."""
    lost: set[tuple[int, int]] = set()
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(positions))
        lost.update(positions[start : start + random.choice([1, 2, 17, 40])])
    return lost


@pytest.mark.parametrize("seed", range(40))
async def test_every_cursor_gets_all_that_is_left_once_in_order_and_nothing_stays_behind(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random, world = Random(seed), World(seed)
    ledger = await factory_of(world.session(), SKIPPING).open(NAME)
    cursors = [await ledger.open_cursor(name, EARLIEST) for name in "ab"]
    await fill(ledger, 90)
    positions = positions_of(ledger._ledgers)
    lost = world.lost = lose(random, positions)
    left = [position for position in positions if position not in lost]
    with caplog.at_level(logging.WARNING):
        for cursor in (*cursors, ledger.new_non_durable_cursor(EARLIEST), await ledger.open_cursor("c", EARLIEST)):
            assert await consume(ledger, cursor, random) == left
            assert (cursor.backlog, cursor.number_of_holes) == (0, 0)
    expected = gaps_in(positions, lost)
    assert [(gap.ledger_id, gap.first, gap.last) for gap in ledger.gaps.known] == expected
    assert ledger.gaps.entries == ledger.gaps.entries_skipped == len(lost)
    assert sum("are lost; skipped" in record.message for record in caplog.records) == len(expected), "one line a gap"


async def test_without_the_key_reading_waits_and_says_so_once_until_the_entry_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    ledger = await open_one(world, WAITING)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 20)
    world.lost = {(1, entry_id) for entry_id in range(5, 12)}
    assert len(await ledger.read(EARLIEST, 100, 1_000_000)) == 5
    for entry_id in (5, 7, 5):
        with pytest.raises(EntriesLost, match=r"entries 1:5 to 1:11 \(7\) are lost"):
            await ledger.read(Position(1, entry_id), 100, 1_000_000)
    told = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "autoSkipNonRecoverableData is off" in told[0]
    assert (ledger.gaps.entries, ledger.gaps.entries_skipped, cursor.backlog) == (7, 0, 20)
    assert len(await ledger.read(Position(1, 12), 100, 1_000_000)) == 8
    world.lost.clear()
    assert len(await ledger.read(Position(1, 5), 100, 1_000_000)) == 15
    assert not ledger.gaps


async def test_what_cannot_be_read_now_is_not_taken_for_lost() -> None:
    world = World()
    ledger = await open_one(world, SKIPPING)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 20)
    world.fail_rate = 1
    with pytest.raises(EntryReadFault):
        await ledger.read(Position(1, 5), 100, 1_000_000)
    world.fail_rate, world.lost = 0.2, {(1, 5), (1, 6), (1, 19)}
    for entry_id in (5, 6, 5, 6, 19) * 20:
        try:
            await ledger.read(Position(1, entry_id), 100, 1_000_000)
        except EntryReadFault:
            continue
    assert [(gap.first, gap.last) for gap in ledger.gaps.known] == [(5, 6), (19, 19)]
    assert cursor.backlog == 17


@pytest.mark.parametrize("seed", range(20))
async def test_a_search_goes_round_what_is_lost(seed: int) -> None:
    random, world = Random(seed), World(seed)
    ledger = await open_one(world, SKIPPING)
    await fill(ledger, 90)
    positions = positions_of(ledger._ledgers)
    world.lost = lose(random, positions)
    for number in range(0, 91, 7):
        found = await ledger.find_first(lambda payload, number=number: int(payload) >= number)  # type: ignore[misc]
        at = next((each for each in positions[number:] if each not in world.lost), ledger._ledgers.end)
        assert ledger.next_position(Position(found.ledger_id, found.entry_id - 1)) in (found, ledger._ledgers.end)
        assert [each for each in positions if found <= each < at and each not in world.lost] == []
        assert [each for each in positions[number:] if each < found and each not in world.lost] == []


async def test_a_scan_finds_all_gaps_and_skips_none() -> None:
    world = World()
    ledger = await open_one(world, SKIPPING)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 50)
    world.lost = {(1, 0), (1, 19), (2, 0), (2, 1), (3, 9)}
    after = await ledger.scan(Position(-1, -1), 0)
    assert after == Position(1, 0), "the time was over at once"
    assert await ledger.scan(after, 1e12) == ledger.last_confirmed
    assert [str(gap) for gap in ledger.gaps.known] == [
        "entries 1:0 to 1:0 (1)",
        "entries 1:19 to 1:19 (1)",
        "entries 2:0 to 2:1 (2)",
        "entries 3:9 to 3:9 (1)",
    ]
    assert (ledger.gaps.entries_skipped, cursor.backlog) == (0, 50)


async def test_gaps_of_trimmed_ledgers_are_forgotten() -> None:
    world = World()
    ledger = await open_one(world, replace(DELETE_AT_ONCE, auto_skip_non_recoverable_data=True))
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 7)
    world.lost = {(1, 3)}
    await consume(ledger, cursor, Random(0))
    await quiet(world)
    assert 1 not in world.ledgers
    assert not ledger.gaps


def test_gaps_are_bounded_and_found_by_what_is_in_them() -> None:
    gaps = Gaps()
    for ledger_id in range(GAPS_MAX + 5):
        gaps.add(Gap(ledger_id, 3, 6, "gone"))
    assert len(gaps.known) == GAPS_MAX
    assert gaps.at(Position(4, 4)) is None
    found = gaps.at(Position(5, 6))
    assert found is not None
    assert (found.ledger_id, found.end) == (5, Position(5, 7))
    assert gaps.at(Position(5, 2)) is gaps.at(Position(5, 7)) is None
    gaps.add(Gap(5, 1, 9, "more is gone"))
    assert gaps.at(Position(5, 4)) == Gap(5, 1, 9, "more is gone")
    assert len(gaps.known) == GAPS_MAX
