"""Another owner takes over an open managed ledger. The first owner learns this at once, whatever it is doing, and tells
its users once. Nothing else is taken for a takeover."""

import asyncio
from random import Random
from typing import Any

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.paths import managed_ledger_path
from magnetar.metadata.store import CancelWatch, Stat, WatchCallback
from magnetar.storage.managed import takeover_watch
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError, ManagedLedgerFenced, MetaStoreFault
from pulsar_proto.ids import EARLIEST
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import DELETE_AT_ONCE, LARGE, NAME, append, factory_of, fill, open_one, quiet
from tests.waiting import until


def told_to(ledger: ManagedLedger) -> list[ManagedLedgerError]:
    told: list[ManagedLedgerError] = []
    ledger.on_fenced(told.append)
    return told


async def test_an_owner_that_only_reads_learns_that_another_opened_the_managed_ledger() -> None:
    world = World()
    first = await open_one(world, LARGE)
    await fill(first, 3)
    await first.open_cursor("s", EARLIEST)
    told = told_to(first)
    second = await open_one(world, LARGE)
    await quiet(world)
    assert (first.state, second.state) == (AppendState.FENCED, AppendState.IDLE)
    assert len(told) == 1
    assert "another owner" in str(told[0])
    late = told_to(first)
    await quiet(world)
    assert late == told, "who comes late is told, too"


async def test_an_owner_learns_that_another_deleted_the_managed_ledger() -> None:
    world = World()
    first = await open_one(world)
    await fill(first, 3)
    told = told_to(first)
    await quiet(world)
    await world.store.delete(managed_ledger_path(NAME))
    await quiet(world)
    assert first.state is AppendState.FENCED
    assert len(told) == 1


@pytest.mark.parametrize("how", ["an append", "a cursor's entry"])
async def test_without_the_watch_the_next_write_tells(how: str) -> None:
    world = World()
    world.watches_work = False
    first = await open_one(world, LARGE)
    await fill(first, 3)
    cursor = await first.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    told = told_to(first)
    await open_one(world, LARGE)
    await quiet(world)
    assert told == []
    if how == "an append":
        await append(first, b"mine")
    else:
        cursor.ack([(1, 2, None)])
    await quiet(world)
    assert (first.state, len(told)) == (AppendState.FENCED, 1)


async def test_without_the_watch_an_owner_that_ends_it_for_ever_learns_that_it_is_none_any_more() -> None:
    world = World()
    world.watches_work = False
    first = await open_one(world, LARGE)
    told = told_to(first)
    second = await open_one(world, LARGE)
    await fill(second, 2)
    with pytest.raises(ManagedLedgerFenced):
        await first.terminate()
    assert (first.state, len(told)) == (AppendState.FENCED, 1)
    await fill(second, 1, 2)
    assert second.state is AppendState.OPEN


@pytest.mark.parametrize("seed", range(60))
async def test_of_two_who_open_at_any_time_one_is_left_and_the_other_knows(seed: int) -> None:
    random, world = Random(seed), World(seed)
    store = world.session()
    await (await factory_of(store, LARGE).open(NAME)).close()
    factories = [factory_of(world.session(), LARGE) for _ in range(2)]
    openings = []
    for factory in factories:
        openings.append(asyncio.create_task(factory.open(NAME)))
        for _ in range(random.choice([0, 1, 5, 20, 60, 200])):
            await asyncio.sleep(0)
    await asyncio.wait(openings)
    await quiet(world)
    opened = [opening.result() for opening in openings if opening.exception() is None]
    errors = [opening.exception() for opening in openings if opening.exception() is not None]
    assert all(isinstance(error, ManagedLedgerError) for error in errors)
    assert len([ledger for ledger in opened if ledger.state is not AppendState.FENCED]) <= 1
    assert opened


async def test_the_store_is_asked_after_another_s_write_and_not_after_the_owner_s_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, asked = World(), 0
    look = MemoryStore.exists

    async def counted(store: MemoryStore, path: str) -> Stat | None:
        nonlocal asked
        asked += path == managed_ledger_path(NAME)
        return await look(store, path)

    monkeypatch.setattr(MemoryStore, "exists", counted)
    ledger = await open_one(world, LARGE)
    await quiet(world)
    after_opening = asked
    for number in range(3):
        await fill(ledger, 1, number)
        await ledger.roll()
        await ledger.set_properties({"written": str(number)})
        await quiet(world)
    assert (asked, ledger.state) == (after_opening, AppendState.IDLE)
    await world.store.put(managed_ledger_path(NAME), b"")
    await quiet(world)
    assert (asked, ledger.state) == (after_opening + 1, AppendState.FENCED)


async def test_another_s_write_that_comes_with_the_owner_s_own_is_noticed() -> None:
    world = World()
    ledger = await open_one(world, LARGE)
    await quiet(world)
    path = managed_ledger_path(NAME)
    before = world.store._tree.get(path).version
    own = asyncio.create_task(ledger.set_properties({"a": "b"}))
    await until(lambda: world.store._tree.get(path).version > before)
    await world.store.put(path, b"")
    await asyncio.wait([own])
    await quiet(world)
    assert ledger.state is AppendState.FENCED


@pytest.mark.parametrize("seed", range(20))
async def test_an_owner_s_own_writes_are_no_takeover_whatever_answers_are_lost(seed: int) -> None:
    random, world = Random(seed), World(seed)
    factory = factory_of(world.session(), DELETE_AT_ONCE)
    ledger = await factory.open(NAME)
    world.fail_rate = random.choice([0, 0.2])

    failures: list[ManagedLedgerError] = []

    async def use() -> None:
        actions: list[Any] = [
            lambda: append(ledger, b"x", b"y"),
            ledger.roll,
            ledger.open_ledger,
            lambda: ledger.set_properties({"k": str(random.random())}),
            ledger.maintain,
        ]
        for _ in range(15):
            try:
                await random.choice(actions)()
            except ManagedLedgerError as error:
                failures.append(error)

    await asyncio.gather(*(use() for _ in range(3)))
    world.fail_rate = 0
    await ledger.maintain()
    await quiet(world)
    assert all(failure.retriable for failure in failures)
    assert ledger.state is not AppendState.FENCED
    assert (await append(ledger, b"z")).error is None


async def test_one_watch_serves_all_and_idle_managed_ledgers_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watches: list[str] = []
    real_watch = MemoryStore.watch

    def counted(store: MemoryStore, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        watches.append(path)
        return real_watch(store, path, callback, recursive=recursive)

    monkeypatch.setattr(MemoryStore, "watch", counted)
    world = World()
    factory = factory_of(world.session(), LARGE)
    for number in range(50):
        await factory.open(f"{NAME}{number}")
    await quiet(world)
    assert len(watches) == 1
    tasks = len(asyncio.all_tasks())
    await quiet(world)
    assert (len(asyncio.all_tasks()), tasks) == (1, 1)
    await factory.close()


class UnknownForAWhile:
    """A managed ledger whose owner cannot be told at the first looks."""

    def __init__(self, failures: int) -> None:
        self.looks_to_fail = failures
        self.looks = 0
        self.asked_often = asyncio.Event()
        self.told = asyncio.Event()

    def changes_seen(self, changes: int | None) -> bool:
        return True

    async def check_ownership(self) -> None:
        self.looks += 1
        if self.looks == 3:
            self.asked_often.set()
        if self.looks <= self.looks_to_fail:
            raise MetaStoreFault(NAME, "the store is away")
        self.told.set()


async def test_a_look_that_the_store_does_not_answer_is_repeated_until_it_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(takeover_watch, "RETRY_SECONDS", 0.0)
    unknown = UnknownForAWhile(3)
    watch = takeover_watch.TakeoverWatch(MemoryStore(), {NAME: unknown})
    watch.opened(NAME)
    await asyncio.wait_for(unknown.told.wait(), 10)
    await watch.close()
    assert unknown.looks == 4
    assert [record.message for record in caplog.records] == [
        f"unknown whether another owner wrote the list of ledgers, asking again: {NAME}: the store is away"
    ], "it is said once"


async def test_a_watch_that_is_closed_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover_watch, "RETRY_SECONDS", 0.0)
    unknown = UnknownForAWhile(10**9)
    watch = takeover_watch.TakeoverWatch(MemoryStore(), {NAME: unknown})
    watch.opened(NAME)
    await asyncio.wait_for(unknown.asked_often.wait(), 10)
    await watch.close()
    looks = unknown.looks
    for _ in range(20):
        await asyncio.sleep(0)
    assert unknown.looks == looks
