"""Managed ledgers on the real ledger client and a real bookie, in one process."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.factory import ManagedLedgerFactory
from pulsar_proto.ids import EARLIEST, Position
from tests.storage.managed.support import CONFIG, DELETE_AT_ONCE, NAME, START_MS, append, read_all
from tests.waiting import until

LEDGERS_OF_50 = replace(CONFIG, managed_ledger_max_entries_per_ledger=50)


class Server:
    """Everything that a standalone process has below its topics."""

    def __init__(self, store: MemoryStore, bookie: Bookie, bookkeeper: BookKeeper) -> None:
        self.store = store
        self.bookie = bookie
        self.bookkeeper = bookkeeper

    def factory(self, config: object = LEDGERS_OF_50) -> ManagedLedgerFactory:
        return ManagedLedgerFactory(
            self.store,
            self.bookkeeper,
            config,  # type: ignore[arg-type]
            clock_ms=lambda: START_MS,
            tick_seconds=None,
        )


@asynccontextmanager
async def server(folder: Path, store: MemoryStore) -> AsyncIterator[Server]:
    """Ends like a process that dies, as far as ledgers and cursors are concerned: none of them is closed."""
    bookie = await Bookie.open(
        BookieConfig(journal_directories=(str(folder / "journal"),), ledger_directories=(str(folder / "ledgers"),)),
        bookie_id="bookie",
        list_ledgers=partial(list_ledgers, store),
    )
    bookkeeper = BookKeeper(
        store,
        {"bookie": bookie}.__getitem__,
        bookies=lambda: ["bookie"] if bookie.is_writable else [],
        next_ledger_id=LedgerIdGenerator(store).next_id,
        rng=random.Random(1),
    )
    try:
        yield Server(store, bookie, bookkeeper)
    finally:
        await bookkeeper.close()
        await bookie.close()


async def test_entries_and_acknowledgements_survive_unclean_ends(tmp_path: Path) -> None:
    store = MemoryStore()
    expected: list[bytes] = []
    acked = 0
    for life in range(3):
        async with server(tmp_path, store) as process:
            ledger = await process.factory().open(NAME)
            cursor = await ledger.open_cursor("s", EARLIEST)
            assert await read_all(ledger) == expected
            assert cursor.backlog == len(expected) - acked
            results: list[AddResult] = []
            for group in range(40):
                payloads = [b"%d %d %d" % (life, group, index) * 20 for index in range(7)]
                expected += payloads
                ledger.add_entries(payloads, results.append)
            await until(lambda results=results: len(results) == 40)  # type: ignore[misc]
            assert all(result.error is None for result in results)
            position = cursor.next_unacked(EARLIEST)
            cursor.ack_cumulative(*position)
            cursor.ack([(*ledger.last_confirmed, None), (*ledger.previous_position(ledger.last_confirmed), [0b10])])
            await cursor.persisted()
            acked += 2
            assert cursor.backlog == len(expected) - acked
            assert await read_all(ledger) == expected


async def test_a_clean_close_and_trimming_leave_only_what_is_needed(tmp_path: Path) -> None:
    store = MemoryStore()
    config = replace(DELETE_AT_ONCE, managed_ledger_max_entries_per_ledger=50)
    async with server(tmp_path, store) as process:
        factory = process.factory(config)
        ledger = await factory.open(NAME)
        cursor = await ledger.open_cursor("s", EARLIEST)
        payloads = [b"%d" % number for number in range(170)]
        for number in range(0, 170, 10):
            assert (await append(ledger, *payloads[number : number + 10])).error is None
        target = await ledger.find_first(lambda payload: int(payload) >= 120)
        cursor.ack_cumulative(*ledger.previous_position(target))
        await cursor.persisted()
        cursor.ack([(target.ledger_id, target.entry_id + 3, None)])
        await factory.close()
        assert len(await list_ledgers(store)) == 2
    async with server(tmp_path, store) as process:
        ledger = await process.factory(config).open(NAME)
        cursor = ledger.cursors["s"]
        assert await read_all(ledger) == payloads[100:]
        assert cursor.backlog == 49
        assert cursor.next_unacked(EARLIEST) == target
        assert not cursor.unacked_runs(target.ledger_id, target.entry_id + 3, 1)


async def test_a_second_owner_fences_the_first(tmp_path: Path) -> None:
    store = MemoryStore()
    async with server(tmp_path, store) as process:
        first = await process.factory().open(NAME)
        assert (await append(first, b"a", b"b")).runs == [(0, 0, 2)]
        second = await process.factory().open(NAME)
        result = await append(first, b"c")
        assert result.error is not None
        assert first.state.value == "fenced"
        assert (await append(second, b"c")).error is None
        assert await read_all(second) == [b"a", b"b", b"c"]
        run = await second.read(Position(0, 1), 10, 1_000)
        assert run.entries[0][run.payload_offset :] == b"b"
        await asyncio.gather(first.close(), second.close())
