"""Readers that follow a ledger while it is written, over TCP to real bookies of ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import NoSuchLedger, ReadFault
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.tailing import TailHandle
from tests.storage.ledger.wire_scene import BOTH, Node, client, nodes

TELLS_LAC = LedgerConfig(explicit_lac_interval_sec=0.01)
PATIENCE_SECONDS = 60.0


class Pair:
    """A writer, and a reader of its ledger with a client of its own."""

    def __init__(self, cluster: list[Node], writer: WriteHandle, reader: TailHandle, other: BookKeeper) -> None:
        self.cluster = cluster
        self.writer = writer
        self.reader = reader
        self.other = other


@asynccontextmanager
async def pair(folder: Path, use_v2: bool, config: LedgerConfig | None = None, bookies: int = 3) -> AsyncIterator[Pair]:
    metadata = MemoryStore()
    async with (
        nodes(folder, bookies) as cluster,
        client(metadata, cluster, use_v2, config) as bookkeeper,
        client(metadata, cluster, use_v2) as other,
    ):
        writer = await bookkeeper.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2)
        await writer.add(b"0")
        yield Pair(cluster, writer, await other.open_ledger_no_recovery(writer.ledger_id), other)


@BOTH
async def test_a_reader_follows_the_writer_entry_by_entry_until_the_ledger_is_closed(
    tmp_path: Path, use_v2: bool
) -> None:
    async with pair(tmp_path, use_v2, TELLS_LAC) as at:
        seen: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def follow() -> None:
            async for entry in at.reader.tail():
                seen.put_nowait(entry[at.reader.payload_offset :])
            seen.put_nowait(None)

        following = asyncio.create_task(follow())
        # each entry is seen before the next one is written, so only the explicit LAC can have shown it
        for number in range(20):
            if number:
                await at.writer.add(b"%d" % number)
            assert await asyncio.wait_for(seen.get(), PATIENCE_SECONDS) == b"%d" % number
        await at.writer.close()
        assert await asyncio.wait_for(seen.get(), PATIENCE_SECONDS) is None
        await following
        assert at.reader.is_closed


@BOTH
async def test_without_an_explicit_lac_the_last_entry_is_known_when_the_next_one_came(
    tmp_path: Path, use_v2: bool
) -> None:
    async with pair(tmp_path, use_v2) as at:
        assert at.reader.last_add_confirmed == -1
        with pytest.raises(ReadFault, match="beyond the last confirmed"):
            await at.reader.read(0, 0)
        assert [entry[at.reader.payload_offset :] for entry in await at.reader.read_unconfirmed(0, 0)] == [b"0"]
        waiting = asyncio.create_task(at.reader.wait(PATIENCE_SECONDS))
        await at.writer.add(b"1")
        assert await waiting
        assert at.reader.last_add_confirmed == 0
        assert not await at.reader.wait(0.05)
        await at.writer.tell_lac()
        assert await at.reader.refresh() == 1


async def test_a_closed_ledger_wakes_its_waiting_reader(tmp_path: Path) -> None:
    async with pair(tmp_path, True) as at:
        waiting = asyncio.create_task(at.reader.wait(PATIENCE_SECONDS))
        await asyncio.sleep(0)
        await at.writer.close()
        assert await waiting
        assert (at.reader.last_add_confirmed, at.reader.length, at.reader.is_closed) == (0, 1, True)
        assert not await at.reader.wait(PATIENCE_SECONDS)


async def test_a_deleted_ledger_ends_the_wait_with_an_error_that_says_so(tmp_path: Path) -> None:
    async with pair(tmp_path, True) as at:
        waiting = asyncio.create_task(at.reader.wait(PATIENCE_SECONDS))
        await asyncio.sleep(0)
        await at.other.delete_ledger(at.writer.ledger_id)
        with pytest.raises(NoSuchLedger):
            await waiting


@BOTH
async def test_a_reader_follows_into_an_ensemble_that_was_changed(tmp_path: Path, use_v2: bool) -> None:
    async with pair(tmp_path, use_v2, TELLS_LAC, bookies=4) as at:
        gone = next(node for node in at.cluster if node.bookie_id == at.writer.metadata.ensembles[0][1][0])
        at.cluster.remove(gone)
        await gone.server.close()
        for number in range(1, 30):
            await at.writer.add(b"%d" % number)
        assert len(at.writer.metadata.ensembles) > 1
        seen: list[bytes] = []
        async for entry in at.reader.tail():
            seen.append(entry[at.reader.payload_offset :])
            if len(seen) == 30:
                break
        assert seen == [b"%d" % number for number in range(30)]
