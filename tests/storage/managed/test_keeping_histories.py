"""The explanation of what keeps ledgers, held against what trimming then deletes, on random histories of a managed
ledger: cursors acknowledge, are moved, made and deleted, readers come and go, entries are written, time passes, and
retention changes."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from magnetar.storage.managed.keeping_rules import KeptLedger
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.rounds import rounds
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import CONFIG, Clock, fill, open_one

STEPS = 40


async def live(seed: int) -> int:
    """Lives one history. Returns how many ledgers were deleted as the explanation said."""
    random, world, clock = Random(seed), World(seed), Clock()
    ledger = await open_one(world, CONFIG, clock)
    releases: list[Callable[[], None]] = []
    deleted = 0
    for _ in range(STEPS):
        match random.randrange(9):
            case 0 | 1:
                await fill(ledger, random.randint(1, 12))
            case 2:
                await ledger.open_cursor(random.choice("abc"), random.choice([EARLIEST, LATEST]))
            case 3:
                await move(random, ledger)
            case 4 if ledger.cursors:
                await ledger.delete_cursor(random.choice(list(ledger.cursors)))
            case 5:
                ledger.new_non_durable_cursor(random.choice([EARLIEST, LATEST]))
            case 6:
                if releases and random.random() < 0.5:
                    releases.pop()()
                else:
                    releases.append(ledger.hold("compaction", ledger.first_position))
            case 7:
                clock.advance(random.choice([1, 60, 1_000]))
            case 8:
                deleted += await trimmed_as_told(random, ledger)
    return deleted


async def move(random: Random, ledger: ManagedLedger) -> None:
    if ledger.cursors and ledger.number_of_entries:
        cursor = ledger.cursors[random.choice(list(ledger.cursors))]
        target = ledger.entry_at(random.randrange(ledger.number_of_entries))
        if random.random() < 0.7:
            cursor.ack_cumulative(*target)
        else:
            await cursor.reset(target)


async def trimmed_as_told(random: Random, ledger: ManagedLedger) -> int:
    """Changes the retention, asks what keeps each ledger, trims, and compares."""
    minutes, megabytes = random.choice([(0, 0), (-1, -1), (5, -1), (-1, 0), (0, -1)])
    ledger.configure(replace(CONFIG, retention_time_minutes=minutes, retention_size_mb=megabytes))
    told = ledger.kept_ledgers()
    assert [each.info.ledger_id for each in told] == ids(ledger)
    current_id = ledger.stats().current_ledger_id
    await ledger.maintain()
    gone = {each.info.ledger_id for each in told} - set(ids(ledger)) - {current_id}
    assert gone == {each.info.ledger_id for each in told if not each.keepers}, told
    await kept_again(ledger)
    ledger.configure(CONFIG)
    return len(gone)


async def kept_again(ledger: ManagedLedger) -> None:
    """After a trim everything that is left is kept by something."""
    left: list[KeptLedger] = ledger.kept_ledgers()
    assert all(each.keepers for each in left), left
    await asyncio.sleep(0)


def ids(ledger: ManagedLedger) -> list[int]:
    return [info.ledger_id for info in ledger.stats().ledgers]


@pytest.mark.parametrize("block", range(rounds(5)))
async def test_trimming_deletes_what_the_explanation_says_nothing_keeps(block: int) -> None:
    deleted = 0
    for seed in range(block * 40, block * 40 + 40):
        try:
            deleted += await live(seed)
        except BaseException:
            print("seed", seed)
            raise
    assert deleted > 20, "histories that delete nothing prove nothing"


async def test_readers_keep_nothing() -> None:
    world = World()
    ledger = await open_one(world, CONFIG)
    await fill(ledger, 12)
    reader = ledger.new_non_durable_cursor(EARLIEST)
    ledger.configure(replace(CONFIG, retention_time_minutes=0, retention_size_mb=0))
    assert [len(each.keepers) for each in ledger.kept_ledgers()] == [0, 0, 1]
    await ledger.maintain()
    assert ids(ledger) == [3]
    assert reader.next_unacked(Position(1, 0)) == Position(3, 0)
