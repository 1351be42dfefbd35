"""Ledger records in a store: compare-and-set against others, lost answers, paths made and pruned, and Java's bytes."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.fragment_rules import writer_closed
from magnetar.storage.ledger.ledger_errors import (
    LedgerExists,
    LedgerMetadataFault,
    MetadataDamaged,
    MetadataVersion,
    NoSuchLedger,
)
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver, VersionedMetadata
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState, ledger_path
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.ledger.scene import Scene, answered, members, new_ledger
from tests.storage.ledger.virtual_loop import run

DRAFT = LedgerMetadata(-1, 1, 1, 1, ((0, ("a",)),))


def ids(*numbers: int) -> Callable[[], Awaitable[int]]:
    drawn = iter(numbers)

    async def next_id() -> int:
        return next(drawn)

    return next_id


def test_a_ledger_comes_with_its_parents_and_takes_them_along() -> None:
    async def story() -> None:
        store = MemoryStore()
        driver = LedgerMetadataDriver(store, ids(12345, 12346, 4294967303))
        for _ in range(3):
            await driver.create(DRAFT, ctoken=1)
        assert await store.children("/ledgers/00/0001") == ["L2345", "L2346"]
        assert await store.children("/ledgers/000/0000/0042/9496") == ["L7303"]
        await driver.delete(12345)
        assert await store.children("/ledgers/00/0001") == ["L2346"]
        await driver.delete(12346)
        await driver.delete(4294967303)
        await driver.delete(4294967303)
        assert await store.children("/ledgers") == []
        with pytest.raises(NoSuchLedger):
            await driver.read(12345)

    run(story())


def test_an_id_that_is_taken_is_passed_over() -> None:
    async def story() -> None:
        store = MemoryStore()
        first = await LedgerMetadataDriver(store, ids(5)).create(DRAFT, ctoken=1)
        second = await LedgerMetadataDriver(store, ids(5, 6)).create(DRAFT, ctoken=2)
        assert (first.metadata.ledger_id, second.metadata.ledger_id) == (5, 6)
        with pytest.raises(LedgerExists):
            await LedgerMetadataDriver(store, ids(*[5] * 100)).create(DRAFT, ctoken=3)

    run(story())


def test_a_record_with_the_own_token_is_the_own_creation() -> None:
    async def story() -> None:
        store = MemoryStore()
        await LedgerMetadataDriver(store, ids(5)).create(DRAFT, ctoken=77)
        again = await LedgerMetadataDriver(store, ids(5)).create(DRAFT, ctoken=77)
        assert again.metadata.ledger_id == 5

    run(story())


def test_an_update_that_lost_the_race_is_made_on_what_won() -> None:
    async def story() -> None:
        store = MemoryStore()
        driver = LedgerMetadataDriver(store, ids(5))
        stale = await driver.create(DRAFT, ctoken=1)
        await driver.update(stale, lambda metadata: replace(metadata, ensembles=((0, ("b",)),)))
        seen: list[LedgerMetadata] = []

        def close(metadata: LedgerMetadata) -> LedgerMetadata | None:
            seen.append(metadata)
            return writer_closed(metadata, 3, 30)

        closed = await driver.update(stale, close)
        assert [metadata.ensembles[0][1] for metadata in seen] == [("a",), ("b",)]
        assert closed == await driver.read(5)
        assert (closed.metadata.state, closed.version) == (LedgerState.CLOSED, 2)

    run(story())


def test_an_update_that_always_loses_gives_up() -> None:
    async def story() -> None:
        store = MemoryStore()
        driver = LedgerMetadataDriver(store, ids(5))
        stale = (await driver.create(DRAFT, ctoken=1))._replace(version=99)

        class Hasty(LedgerMetadataDriver):
            async def read(self, ledger_id: int) -> VersionedMetadata:
                return stale

        with pytest.raises(MetadataVersion):
            await Hasty(store, ids()).update(stale, lambda metadata: writer_closed(metadata, 3, 30))

    run(story())


def test_a_deleted_ledger_cannot_be_updated() -> None:
    async def story() -> None:
        driver = LedgerMetadataDriver(MemoryStore(), ids(5))
        ledger = await driver.create(DRAFT, ctoken=1)
        await driver.delete(5)
        with pytest.raises(NoSuchLedger):
            await driver.update(ledger, lambda metadata: writer_closed(metadata, 3, 30))

    run(story())


def test_faults_of_the_store_and_damaged_records_are_told_apart() -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.create(ledger_path(5), b"no metadata at all", make_parents=True)
        driver = LedgerMetadataDriver(store, ids(6))
        with pytest.raises(MetadataDamaged):
            await driver.read(5)
        await store.close()
        for call in (driver.read(5), driver.delete(5), driver.create(DRAFT, ctoken=1)):
            with pytest.raises(LedgerMetadataFault):
                await call

    run(story())


def test_a_close_whose_answer_got_lost_succeeds_when_repeated() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle, _ = await new_ledger(scene.client("w"), (1, 1, 1))
        await handle.add(b"a")
        scene.ways_to_store["w"].lose_answers = True
        with pytest.raises(LedgerMetadataFault):
            await handle.close()
        scene.ways_to_store["w"].lose_answers = False
        await handle.close()
        assert (await scene.metadata(handle.ledger_id)).last_entry_id == 0

    run(story())


def test_a_writer_whose_ensemble_change_fails_in_the_store_ends_with_that() -> None:
    async def story() -> None:
        scene = Scene(2)
        handle, writer = await new_ledger(scene.client("w"), (1, 1, 1))
        scene.cluster.bookies[members(handle)[0]].rc_of_add = BookieRc.EIO
        scene.ways_to_store["w"].lose_answers = True
        writer.append(b"a")
        await answered(writer)
        assert [type(error) for _, error in writer.failed] == [LedgerMetadataFault]

    run(story())
