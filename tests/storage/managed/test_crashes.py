"""The process dies at every durable step of a day's work, and what was promised holds.

Each run dies at one step, before or after its effect, with none or all of the unconfirmed entries on the bookies; most
die again while they open. Promised: every confirmed entry is there, in order, unless it was trimmed, and then every
cursor had acknowledged it; what was acknowledged durably stays acknowledged; nothing else is acknowledged; a stored
mark-delete never goes back; every ledger of the list exists.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from magnetar.metadata.paths import managed_ledger_path
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.list_record import parse_list
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import EARLIEST, Position
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import DELETE_AT_ONCE, NAME, factory_of, quiet, read_all

CURSORS = ("a", "b")
DAY = replace(DELETE_AT_ONCE, managed_ledger_cursor_max_entries_per_ledger=2)
"""Makes cursor ledgers be replaced all the time."""


@dataclass
class Promises:
    """What the process was told before it died."""

    confirmed: list[int] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)
    sent: int = 0
    acked: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in CURSORS})
    """What may be acknowledged after the crash, because memory said so."""
    durable: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in CURSORS})
    """What must be acknowledged after the crash, because it was durable."""
    mark_delete: dict[str, Position] = field(default_factory=lambda: {name: Position(-1, -1) for name in CURSORS})
    cursors: set[str] = field(default_factory=set)


class Process:
    """One life of the program under test."""

    def __init__(self, world: World, promises: Promises) -> None:
        self.promises = promises
        self.factory: ManagedLedgerFactory = factory_of(world.session(), DAY)
        self.ledger: ManagedLedger

    async def open(self) -> None:
        self.ledger = await self.factory.open(NAME)
        for name in CURSORS:
            await self.ledger.open_cursor(name, EARLIEST)
            self.promises.cursors.add(name)

    async def send(self, count: int, groups: int) -> None:
        answers: list[asyncio.Future[None]] = []
        for _ in range(groups):
            numbers = list(range(self.promises.sent, self.promises.sent + count))
            self.promises.sent += count
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            answers.append(answer)
            self.ledger.add_entries(
                [b"%d" % number for number in numbers],
                lambda result, numbers=numbers, answer=answer: self._sent(numbers, result, answer),  # type: ignore[misc]
            )
        await asyncio.gather(*answers)

    def _sent(self, numbers: list[int], result: AddResult, answer: "asyncio.Future[None]") -> None:
        assert result.error is None
        ((ledger_id, first, count),) = result.runs
        assert count == len(numbers)
        for offset, number in enumerate(numbers):
            self.promises.confirmed.append(number)
            self.promises.positions[number] = Position(ledger_id, first + offset)
        answer.set_result(None)

    async def ack(self, name: str, *numbers: int) -> None:
        cursor, promises = self.ledger.cursors[name], self.promises
        promises.acked[name].update(numbers)
        cursor.ack([(*promises.positions[number], None) for number in numbers])
        acked = set(promises.acked[name])
        await cursor.persisted()
        promises.durable[name] |= acked
        promises.mark_delete[name] = cursor.mark_delete

    async def close(self) -> None:
        await self.factory.close()
        for name in CURSORS:
            self.promises.durable[name] |= self.promises.acked[name]


async def a_days_work(world: World, promises: Promises) -> None:
    process = Process(world, promises)
    await process.open()
    await process.send(2, 4)
    await process.ack("a", 1, 3)
    await process.ack("a", 0)
    await process.ack("b", 0, 1, 2, 3, 4)
    await process.send(1, 6)
    await process.ack("a", 2, 4, 5, 6, 7, 9)
    await process.ack("b", 5, 6, 7, 8, 11)
    await process.close()

    process = Process(world, promises)
    await process.open()
    await process.send(3, 1)
    await process.ledger.roll()
    await process.ack("a", 8, 10, 12)
    await process.ack("b", 9, 10, 16)
    await process.send(1, 2)
    await process.ack("b", 12, 13)
    await process.ledger.maintain()
    await process.ack("a", 11, 13, 14, 15, 16)
    await process.ledger.set_properties({"k": "v"})
    await quiet(world)


async def check(world: World, ledger: ManagedLedger, promises: Promises) -> dict[int, Position]:
    """Checks all promises, and returns where the numbers are."""
    record = await world.store.get(managed_ledger_path(NAME))
    assert record is not None
    listed = parse_list(record.value).ledgers
    assert all(info.ledger_id in world.ledgers for info in listed)

    stored = [each async for each in numbers_of(ledger)]
    numbers, found = [number for number, _ in stored], dict(stored)
    assert numbers == sorted(set(numbers)), "in order, none twice"
    for number in promises.confirmed:
        if number in found:
            assert found[number] == promises.positions[number]
        else:
            assert all(number in promises.acked[name] for name in CURSORS), f"{number} is lost"
    assert promises.cursors <= set(ledger.cursors)
    for cursor in ledger.cursors.values():
        check_cursor(cursor, found, promises)
    return found


def check_cursor(cursor: Cursor, found: dict[int, Position], promises: Promises) -> None:
    name = cursor.name
    unacked = {number for number, position in found.items() if not cursor.is_acked(*position)}
    assert not unacked & promises.durable[name], f"{name}: a durable acknowledgement is lost"
    assert set(found) - unacked <= promises.acked[name], f"{name}: acknowledged what nobody acknowledged"
    assert cursor.backlog == len(unacked)
    assert cursor.mark_delete >= promises.mark_delete[name], f"{name}: the mark-delete went back"


async def numbers_of(ledger: ManagedLedger) -> AsyncIterator[tuple[int, Position]]:
    position = EARLIEST
    while (run := await ledger.read(position, 100, 1_000_000)).entries:
        for offset, entry in enumerate(run.entries):
            yield int(entry[run.payload_offset :]), Position(run.ledger_id, run.first_entry_id + offset)
        position = Position(run.ledger_id, run.first_entry_id + len(run))


async def live_until_death(world: World, life: "asyncio.Task[None]") -> bool:
    """Returns True when the process died, False when it came to its end."""
    death = asyncio.create_task(world.steps.dead.wait())
    await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
    if life.done():
        life.result()
    return world.steps.dead.is_set()


async def die_at(step: int, after_effect: bool, keep_groups: int) -> bool:
    """Runs one history. Returns False when the day is over before the step."""
    world, promises = World(seed=step), Promises()
    world.steps.die_at, world.steps.die_after_effect = step, after_effect
    died = await live_until_death(world, asyncio.create_task(a_days_work(world, promises)))
    await world.bury(keep_groups)

    world.steps.die_at, world.steps.die_after_effect = 1 + step % 7, not after_effect
    await live_until_death(world, asyncio.create_task(open_and_close(world)))
    await world.bury(keep_groups)

    process = Process(world, promises)
    ledger = await process.factory.open(NAME)
    found = await check(world, ledger, promises)
    promises.positions |= found
    promises.sent = max([promises.sent - 1, *found]) + 1
    await process.open()
    await process.send(2, 3)
    for name in CURSORS:
        await process.ack(name, *promises.positions)
    await quiet(world)
    await process.close()
    assert await everything_is_acknowledged(world)
    return died


async def open_and_close(world: World) -> None:
    factory = factory_of(world.session(), DAY)
    await factory.open(NAME)
    await factory.close()


async def everything_is_acknowledged(world: World) -> bool:
    ledger = await factory_of(world.session(), DAY).open(NAME)
    payloads = await read_all(ledger)
    await quiet(world)
    return all(cursor.backlog == 0 for cursor in ledger.cursors.values()) and len(payloads) <= 6


@pytest.mark.parametrize("keep_groups", [0, 99], ids=["unconfirmed lost", "unconfirmed kept"])
@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
async def test_promises_hold_whatever_step_the_process_dies_at(after_effect: bool, keep_groups: int) -> None:
    step = 1
    while await die_at(step, after_effect, keep_groups):
        step += 1
    assert step > 60, "the day has that many durable steps"
