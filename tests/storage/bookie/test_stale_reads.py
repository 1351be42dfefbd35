"""An entry that was added again is read as it was added last, wherever the read finds it: in the write cache, the
read-ahead cache or the logs."""

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.entry_log_reader import EntryLogReader
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.bookie.helpers import entry_of, running, start_add

LEDGERS, ENTRIES = 2, 40
SMALL_BLOCKS: dict[str, Any] = {"entry_block_kb": 1, "read_ahead_kb": 8}


def content(ledger_id: int, entry_id: int, version: int) -> bytes:
    return entry_of(ledger_id, entry_id, b"version %d of %d " % (version, entry_id) * 8)


async def put(bookie: Bookie, ledger_id: int, ids: range, version: int) -> None:
    entries = [content(ledger_id, i, version) for i in ids]
    assert await start_add(bookie, ledger_id, ids, entries) == BookieRc.EOK


@pytest.mark.parametrize("flush_again", [False, True])
async def test_what_was_read_ahead_is_forgotten_when_it_is_added_again(tmp_path: Path, flush_again: bool) -> None:
    async with running(tmp_path, **SMALL_BLOCKS) as bookie:
        await put(bookie, 1, range(ENTRIES), 1)
        await bookie.checkpoint()
        await bookie.read_entries(1, 0, ENTRIES, 1 << 20)
        assert bookie.stats().read_ahead_cache_bytes > 0
        await put(bookie, 1, range(10, 12), 2)
        if flush_again:
            await bookie.checkpoint()
        for entry_id in (9, 10, 11, 12):
            expected = content(1, entry_id, 2 if entry_id in (10, 11) else 1)
            assert await bookie.read_entry(1, entry_id) == expected
            assert (await bookie.read_entries(1, entry_id, 1, 1 << 20))[0] == expected


@pytest.mark.parametrize("flush_again", [False, True])
async def test_a_read_that_was_under_way_leaves_nothing_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush_again: bool
) -> None:
    """The disk is read before the entries are added again, and the answer is used afterwards."""
    was_read, go_on = threading.Event(), threading.Event()
    real = EntryLogReader.read

    def read(reader: EntryLogReader, ledger_id: int, first_entry_id: int, span_bytes: int) -> list[bytes]:
        found = real(reader, ledger_id, first_entry_id, span_bytes)
        was_read.set()
        assert go_on.wait(60)
        return found

    async with running(tmp_path, **SMALL_BLOCKS) as bookie:
        await put(bookie, 1, range(ENTRIES), 1)
        await bookie.checkpoint()
        with monkeypatch.context() as patched:
            patched.setattr(EntryLogReader, "read", read)
            reading = asyncio.ensure_future(bookie.read_entries(1, 0, ENTRIES, 1 << 20))
            assert await asyncio.to_thread(was_read.wait, 60)
            await put(bookie, 1, range(3, 5), 2)
            if flush_again:
                await bookie.checkpoint()
            go_on.set()
            await reading
        for entry_id in range(8):
            expected = content(1, entry_id, 2 if entry_id in (3, 4) else 1)
            assert await bookie.read_entry(1, entry_id) == expected


@pytest.mark.parametrize("seed", range(6))
async def test_random_histories_never_read_what_was_replaced(tmp_path: Path, seed: int) -> None:
    """A read may return what was stored when it began, or anything newer."""
    rng = random.Random(seed)
    versions = [[0] * ENTRIES for _ in range(LEDGERS)]
    async with running(tmp_path, **SMALL_BLOCKS) as bookie:
        for ledger_id in range(LEDGERS):
            await put(bookie, ledger_id, range(ENTRIES), 0)

        async def check(ledger_id: int, first: int) -> None:
            began = list(versions[ledger_id])
            if rng.random() < 0.5:
                found = [await bookie.read_entry(ledger_id, first)]
            else:
                found = await bookie.read_entries(ledger_id, first, rng.randrange(1, ENTRIES), 1 << 20)
            for entry_id, entry in enumerate(found, first):
                newer = range(began[entry_id], versions[ledger_id][entry_id] + 1)
                assert entry in [content(ledger_id, entry_id, version) for version in newer]

        async def add_again(ledger_id: int, first: int) -> None:
            ids = range(first, min(ENTRIES, first + rng.randrange(1, 6)))
            version = max(versions[ledger_id]) + 1
            for entry_id in ids:
                versions[ledger_id][entry_id] = version
            await put(bookie, ledger_id, ids, version)

        for _ in range(120):
            under_way: list[Any] = []
            for _ in range(rng.randrange(1, 6)):
                act = rng.choices([check, add_again], [4, 1])[0]
                under_way.append(act(rng.randrange(LEDGERS), rng.randrange(ENTRIES)))
            if rng.random() < 0.2:
                under_way.append(bookie.checkpoint())
            await asyncio.gather(*under_way)
