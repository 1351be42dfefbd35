"""The metadata store falls silent under a managed ledger: entries and acknowledgements go on in the ledgers that there
are, and what had to wait is done once the store answers again."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import Created, Op, Record, Stat
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.managed import metadata_access
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.metadata_access import MetadataAccess
from pulsar_proto.ids import EARLIEST, Position
from tests.storage.bookie.helpers import running
from tests.storage.managed.support import CONFIG, DELETE_AT_ONCE, NAME, START_MS, append, read_all
from tests.waiting import until

SECONDS_MAX = 20
LEDGERS_OF_5 = replace(CONFIG, managed_ledger_max_entries_per_ledger=5)


class SilentStore(MemoryStore):
    """A store in another process. While it is `silent`, it takes calls and does not answer; its link still seems to be
    there, unless `is_linked` says otherwise."""

    is_linked = True

    def silence(self) -> None:
        self.answering.clear()

    def speak(self) -> None:
        self.answering.set()

    @property
    def answering(self) -> asyncio.Event:
        event: asyncio.Event = self.__dict__.setdefault("_answering", asyncio.Event())
        if "_begun" not in self.__dict__:
            self.__dict__["_begun"] = True
            event.set()
        return event

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def is_connected(self) -> bool:
        return self.is_linked

    async def get(self, path: str) -> Record | None:
        await self.answering.wait()
        return await super().get(path)

    async def exists(self, path: str) -> Stat | None:
        await self.answering.wait()
        return await super().exists(path)

    async def children(self, path: str) -> list[str]:
        await self.answering.wait()
        return await super().children(path)

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        await self.answering.wait()
        return await super().put(path, value, expected_version)

    async def create(self, path: str, value: bytes = b"", **options: bool) -> Created:
        await self.answering.wait()
        return await super().create(path, value, **options)

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        await self.answering.wait()
        await super().delete(path, expected_version)

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        await self.answering.wait()
        return await super().multi(ops)


class Scene:
    def __init__(self, store: SilentStore, bookkeeper: BookKeeper, config: ManagedLedgerConfig) -> None:
        self.store = store
        self.now_s = 0.0
        self.factory = ManagedLedgerFactory(
            store,
            bookkeeper,
            config,
            clock_ms=lambda: START_MS,
            monotonic_s=lambda: self.now_s,
            tick_seconds=None,
        )

    def later(self) -> None:
        """Lets the pause after a question pass that got no answer."""
        self.now_s += metadata_access.RETRY_SECONDS


@asynccontextmanager
async def scene(folder: Path, config: ManagedLedgerConfig = LEDGERS_OF_5) -> AsyncIterator[Scene]:
    store = SilentStore()
    async with running(folder) as bookie:
        bookkeeper = BookKeeper(
            store,
            {"bookie": bookie}.__getitem__,
            bookies=lambda: ["bookie"],
            next_ledger_id=LedgerIdGenerator(store).next_id,
            rng=random.Random(1),
        )
        try:
            async with asyncio.timeout(SECONDS_MAX):
                yield Scene(store, bookkeeper, config)
        finally:
            store.speak()
            await bookkeeper.close()


async def _fill(ledger: ManagedLedger, count: int, first: int = 0) -> list[bytes]:
    payloads = [b"%d" % number for number in range(first, first + count)]
    for payload in payloads:
        assert (await append(ledger, payload)).error is None
    return payloads


async def test_a_full_ledger_grows_until_the_store_answers(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        ledger = await one.factory.open(NAME)
        expected = await _fill(ledger, 3)
        first_id = ledger.last_confirmed.ledger_id
        one.store.silence()
        expected += await _fill(ledger, 20, 3)
        assert ledger.last_confirmed == Position(first_id, 22)
        one.store.speak()
        await until(lambda: one.factory._shared.access._asking is None)
        one.later()
        while ledger.last_confirmed.ledger_id == first_id:
            expected += await _fill(ledger, 1, len(expected))
        assert await read_all(ledger) == expected


async def test_nothing_is_asked_while_the_link_is_known_to_be_lost(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        ledger = await one.factory.open(NAME)
        await _fill(ledger, 3)
        one.store.silence()
        one.store.is_linked = False
        await _fill(ledger, 20, 3)
        assert one.factory._shared.access._asking is None
        assert ledger._appender.is_open


async def test_a_full_ledger_stays_for_a_moment_after_a_loss_of_the_link_that_no_question_noticed(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as one:
        ledger = await one.factory.open(NAME)
        await _fill(ledger, 3)
        first_id = ledger.last_confirmed.ledger_id
        one.store.is_linked = False
        await _fill(ledger, 20, 3)
        one.store.is_linked = True
        await _fill(ledger, 1, 23)
        await until(lambda: one.factory._shared.access._asking is None)
        await _fill(ledger, 1, 24)
        assert ledger.last_confirmed.ledger_id == first_id, "bookies whose sessions expired register again first"
        one.later()
        count = 25
        while ledger.last_confirmed.ledger_id == first_id:
            await _fill(ledger, 1, count)
            count += 1


async def test_a_cursor_stays_in_its_ledger_while_the_store_is_away(tmp_path: Path) -> None:
    config = replace(CONFIG, managed_ledger_max_entries_per_ledger=1000, managed_ledger_cursor_max_entries_per_ledger=4)
    async with scene(tmp_path, config) as one:
        ledger = await one.factory.open(NAME)
        await _fill(ledger, 30)
        ledger_id = ledger.last_confirmed.ledger_id
        cursor = await ledger.open_cursor("s", EARLIEST)

        async def ack(entry_id: int) -> int:
            cursor.ack([(ledger_id, entry_id, None)])
            await cursor.persisted()
            assert cursor._store is not None
            return cursor._store.ledger_id

        cursor_ledger = await ack(0)
        one.store.silence()
        one.store.is_linked = False
        assert {await ack(entry_id) for entry_id in range(1, 20)} == {cursor_ledger}
        one.store.speak()
        one.store.is_linked = True
        one.later()
        assert await ack(20) == cursor_ledger, "bookies whose sessions expired register again first"
        one.later()
        assert await ack(21) != cursor_ledger


async def test_a_trim_waits_for_the_store(tmp_path: Path) -> None:
    config = replace(DELETE_AT_ONCE, managed_ledger_max_entries_per_ledger=5)
    async with scene(tmp_path, config) as one:
        ledger = await one.factory.open(NAME)
        cursor = await ledger.open_cursor("s", EARLIEST)
        await _fill(ledger, 12)
        one.store.silence()
        one.store.is_linked = False
        positions = [(info.ledger_id, entry, None) for info in ledger._ledgers.infos[:2] for entry in range(5)]
        cursor.ack(positions)
        await ledger.maintain()
        assert ledger.number_of_entries == 12
        one.store.speak()
        one.store.is_linked = True
        while ledger.number_of_entries > 2:  # `scene` bounds the time; the first answer only ends the silence.
            one.later()
            await ledger.maintain()
        assert ledger.number_of_entries == 2


async def test_many_share_one_question() -> None:
    store = SilentStore()
    now_s = 0.0
    access = MetadataAccess(store, lambda: now_s)
    asked = 0
    exists = store.exists

    async def counted(path: str) -> Stat | None:
        nonlocal asked
        asked += 1
        return await exists(path)

    store.exists = counted  # type: ignore[method-assign]
    assert all(await asyncio.gather(*(access.answers() for _ in range(100))))
    assert asked == 1
    store.silence()
    assert not any(await asyncio.gather(*(access.answers() for _ in range(100))))
    assert asked == 2
    store.speak()
    assert not await access.answers(), "not so soon"
    now_s += metadata_access.RETRY_SECONDS
    assert not await access.answers(), "bookies may have to register again first"
    now_s += metadata_access.RETRY_SECONDS
    assert await access.answers()


async def test_ledgers_are_kept_while_too_few_bookies_are_registered_for_new_ones() -> None:
    now_s, enough = 0.0, False
    access = MetadataAccess(SilentStore(), lambda: now_s, lambda: enough)
    assert not await access.answers()
    enough = True
    assert not await access.answers(), "not so soon"
    now_s += metadata_access.RETRY_SECONDS
    assert await access.answers()
