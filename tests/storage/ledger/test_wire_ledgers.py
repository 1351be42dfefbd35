"""The whole way without Java: our ledger client over TCP to real bookies of ours, some of which go away."""

import asyncio
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_errors import LedgerFenced
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.read_handle import ReadHandle
from tests.storage.ledger.wire_scene import BOTH, client, nodes


def payloads_of(first: int, count: int) -> list[bytes]:
    return [b"%d" % number * 20 for number in range(first, first + count)]


async def append(writer: WriteHandle, first: int, count: int) -> None:
    done: asyncio.Future[Append] = asyncio.get_running_loop().create_future()
    writer.append(payloads_of(first, count), done.set_result)
    error = (await done).error
    if error is not None:
        raise error


async def read_all(reader: ReadHandle) -> list[bytes]:
    entries: list[bytes] = []
    while len(entries) <= reader.last_add_confirmed:
        entries += await reader.read(len(entries), reader.last_add_confirmed)
    return [entry[reader.payload_offset :] for entry in entries]


@BOTH
async def test_a_bookie_that_goes_away_is_replaced_and_nothing_is_lost(tmp_path: Path, use_v2: bool) -> None:
    metadata = MemoryStore()
    async with nodes(tmp_path, 4) as cluster, client(metadata, cluster, use_v2) as bookkeeper:
        writer = await bookkeeper.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        await append(writer, 0, 100)
        members = writer.metadata.ensembles[-1][1]
        gone = next(node for node in cluster if node.bookie_id == members[0])
        cluster.remove(gone)
        await gone.server.close()
        for first in range(100, 600, 50):
            await append(writer, first, 50)
        assert gone.bookie_id not in writer.metadata.ensembles[-1][1]
        await writer.close()
        reader = await bookkeeper.open_ledger(writer.ledger_id)
        assert await read_all(reader) == payloads_of(0, 600)


@BOTH
async def test_recovery_by_another_client_ends_the_writer_and_keeps_every_entry(tmp_path: Path, use_v2: bool) -> None:
    metadata = MemoryStore()
    async with (
        nodes(tmp_path, 3) as cluster,
        client(metadata, cluster, use_v2) as bookkeeper,
        client(metadata, cluster, use_v2) as other,
    ):
        writer = await bookkeeper.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2)
        await append(writer, 0, 50)
        recovered = await other.open_ledger(writer.ledger_id)
        with pytest.raises(LedgerFenced):
            await append(writer, 50, 10)
        assert await read_all(recovered) == payloads_of(0, 50)
