"""Writes to the metadata store whose answer is lost: they may have arrived or not."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import product
from typing import Any

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import MetadataError, NodeExistsError, OutcomeUnknownError
from magnetar.metadata.paths import managed_ledger_path
from magnetar.metadata.store import Created
from magnetar.storage.managed.list_record import parse_list
from magnetar.storage.managed.managed_ledger_errors import CursorFault, MetaStoreFault
from magnetar.storage.managed.versioned_record import SupersededError, VersionedRecord
from pulsar_proto.ids import EARLIEST
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import CONFIG, NAME, append, factory_of, fill, open_one, quiet, read_all

ARRIVES = pytest.mark.parametrize("arrives", [False, True], ids=["not arrived", "arrived"])


@asynccontextmanager
async def failing_puts(world: World, arrives: bool) -> AsyncIterator[None]:
    world.put_error, world.put_arrives = MetadataError("/x", "connection lost"), arrives
    yield
    await quiet(world)
    world.put_error = None


async def listed(world: World) -> list[int]:
    record = await world.store.get(managed_ledger_path(NAME))
    assert record is not None
    return [info.ledger_id for info in parse_list(record.value).ledgers]


@ARRIVES
async def test_a_record_is_written_on_after_a_lost_answer(arrives: bool) -> None:
    world = World()
    record = VersionedRecord(world.session().metadata(), "/r")
    await record.create(b"0")
    async with failing_puts(world, arrives):
        with pytest.raises(MetadataError):
            await record.write(b"1")
    await record.write(b"2")
    stored = await world.store.get("/r")
    assert stored is not None
    assert (stored.value, stored.stat.version) == (b"2", 1 + arrives)


@ARRIVES
async def test_another_owners_write_is_told_from_ones_own(arrives: bool) -> None:
    world = World()
    record = VersionedRecord(world.session().metadata(), "/r")
    await record.create(b"0")
    async with failing_puts(world, arrives):
        with pytest.raises(MetadataError):
            await record.write(b"1")
    await world.store.put("/r", b"theirs")
    with pytest.raises(SupersededError):
        await record.write(b"2")
    await world.store.delete("/r")
    with pytest.raises(SupersededError):
        await record.write(b"3")
    await record.delete()


async def test_a_record_is_created_once() -> None:
    world = World()
    record = VersionedRecord(world.session().metadata(), "/a/b")
    assert await record.load() is None
    await record.create(b"0")
    with pytest.raises(NodeExistsError):
        await VersionedRecord(world.session().metadata(), "/a/b").create(b"1")


class CreatesUnanswered(MemoryStore):
    """Loses the answers to the first creates. `arrive` says of each whether it reaches the store all the same."""

    def __init__(self, arrive: Sequence[bool]) -> None:
        super().__init__()
        self._arrive = list(arrive)

    async def create(self, path: str, value: bytes = b"", **options: Any) -> Created:
        if not self._arrive:
            return await super().create(path, value, **options)
        if self._arrive.pop(0):
            with suppress(NodeExistsError):
                await super().create(path, value, **options)
        raise OutcomeUnknownError(path, "the answer was lost")


@pytest.mark.parametrize("arrive", list(product([False, True], repeat=3)), ids=str)
async def test_a_record_is_created_after_several_lost_answers_with_other_values(arrive: tuple[bool, ...]) -> None:
    store = CreatesUnanswered(arrive)
    record = VersionedRecord(store, "/r")
    for number, _ in enumerate(arrive):
        with pytest.raises(OutcomeUnknownError):
            await record.create(b"%d" % number)
    await record.create(b"last")
    await record.write(b"more")
    stored = await store.get("/r")
    assert stored is not None
    assert stored.value == b"more"


async def test_a_record_that_another_owner_made_while_answers_were_lost_is_not_taken() -> None:
    store = CreatesUnanswered([False, False])
    record = VersionedRecord(store, "/r")
    for value in (b"1", b"2"):
        with pytest.raises(OutcomeUnknownError):
            await record.create(value)
    await VersionedRecord(store, "/r").create(b"theirs")
    with pytest.raises(NodeExistsError):
        await record.create(b"3")


@ARRIVES
async def test_a_new_ledger_whose_list_write_got_no_answer_is_not_used(arrives: bool) -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 4)
    async with failing_puts(world, arrives):
        assert (await append(ledger, b"4")).error is None
        assert isinstance((await append(ledger, b"lost")).error, MetaStoreFault)
    assert 2 not in world.ledgers
    assert await read_all(ledger) == [b"0", b"1", b"2", b"3", b"4"]
    await fill(ledger, 1, 5)
    assert await listed(world) == [1, 3]
    again = await open_one(world)
    assert await read_all(again) == [b"0", b"1", b"2", b"3", b"4", b"5"]


@ARRIVES
async def test_a_crash_after_a_lost_answer_opens_without_the_unused_ledger(arrives: bool) -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 5)
    async with failing_puts(world, arrives):
        assert isinstance((await append(ledger, b"lost")).error, MetaStoreFault)
    await world.bury()
    again = await open_one(world)
    assert await read_all(again) == [b"0", b"1", b"2", b"3", b"4"]
    await fill(again, 1, 5)
    assert set(await listed(world)) <= set(world.ledgers)


@ARRIVES
async def test_terminating_can_be_tried_again(arrives: bool) -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 2)
    async with failing_puts(world, arrives):
        with pytest.raises(MetaStoreFault):
            await ledger.terminate()
    assert (await append(ledger, b"2")).error is None, "not terminated, so it goes on"
    assert await ledger.terminate() == ledger.last_confirmed
    assert await read_all(await open_one(world)) == [b"0", b"1", b"2"]


@ARRIVES
async def test_an_acknowledgement_whose_node_write_got_no_answer_is_stored_the_next_time(arrives: bool) -> None:
    world = World()
    ledger = await open_one(world, CONFIG)
    await fill(ledger, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    async with failing_puts(world, arrives):
        cursor.ack([(1, 2, None)])
        with pytest.raises(CursorFault):
            await cursor.persisted()
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    await quiet(world)
    assert len(world.ledgers) == 2, "one for entries, one for the cursor"
    await world.bury()
    again = (await open_one(world)).cursors["s"]
    assert (again.mark_delete, again.is_acked(1, 2)) == ((1, 0), True)


@ARRIVES
async def test_a_crash_after_such_a_write_keeps_what_was_stored_before(arrives: bool) -> None:
    world = World()
    factory = factory_of(world.session())
    ledger = await factory.open(NAME)
    await fill(ledger, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None), (1, 3, None)])
    await factory.close()
    ledger = await open_one(world)
    async with failing_puts(world, arrives):
        ledger.cursors["s"].ack([(1, 1, None)])
        with pytest.raises(CursorFault):
            await ledger.cursors["s"].persisted()
    await world.bury()
    again = (await open_one(world)).cursors["s"]
    assert again.is_acked(1, 0)
    assert again.is_acked(1, 3)


@ARRIVES
async def test_nothing_is_appended_to_a_cursor_ledger_that_the_node_may_not_name(arrives: bool) -> None:
    world = World()
    ledger = await open_one(world)
    await fill(ledger, 5)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    async with failing_puts(world, arrives):
        with pytest.raises(CursorFault):
            await cursor.set_properties({"k": "v"})
    cursor.ack([(1, 2, None)])
    await cursor.persisted()
    await world.bury()
    again = (await open_one(world)).cursors["s"]
    assert again.is_acked(1, 2)
    assert again.properties == {}, "what failed was not shown, and is overwritten"


@pytest.mark.parametrize("seed", range(30))
async def test_a_cursor_whose_making_got_no_answer_can_be_made_again(seed: int) -> None:
    world = World(seed)
    ledger = await open_one(world)
    await fill(ledger, 3)
    world.fail_rate = 0.7
    for attempt in range(200):
        try:
            cursor = await ledger.open_cursor("s", EARLIEST)
            break
        except MetaStoreFault:
            world.fail_rate = 0.7 if attempt < 20 else 0
    world.fail_rate = 0
    await fill(ledger, 2, 3)
    assert cursor.backlog == 5
    cursor.ack([(1, 0, None)])
    await cursor.persisted()
    await world.bury()
    assert (await open_one(world)).cursors["s"].backlog == 4


async def test_a_cursor_that_another_owner_made_is_not_taken() -> None:
    world = World()
    record = VersionedRecord(world.session().metadata(), "/r")
    await world.store.create("/r", b"theirs")
    with pytest.raises(NodeExistsError):
        await record.create(b"mine")
    stored = await world.store.get("/r")
    assert stored is not None
    assert stored.value == b"theirs"
