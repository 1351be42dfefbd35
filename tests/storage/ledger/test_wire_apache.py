"""Our ledger client against Apache's bookies, alone and mixed with ours, by both protocols."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from compat_tests.bookkeeper.apache_bookkeeper import Cluster, running_cluster
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerFenced
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.wire_channel import WireChannel, WireChannels, address_in_id
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, AddFlags, BookieError, BookieRc, ReadFlags

pytestmark = [pytest.mark.process, pytest.mark.slow]

PASSWORD = b"secret"
KEY = master_key(PASSWORD)
BOTH = pytest.mark.parametrize("use_v2", [True, False], ids=["v2", "v3"])
LEDGER_IDS = itertools.count(1_000_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("apache")) as made:
        yield made


@pytest.fixture(scope="module")
def apache(cluster: Cluster) -> list[str]:
    return [cluster.start_apache_bookie(f"apache{number}") for number in range(2)]


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> str:
    return cluster.start_bookie("ours").bookie_id


@asynccontextmanager
async def client(cluster: Cluster, bookies: list[str], use_v2: bool) -> AsyncIterator[BookKeeper]:
    metadata = await ZooKeeperStore.open(cluster.zookeeper)
    channels = WireChannels(address_in_id, WireConfig(use_v2_wire_protocol=use_v2))

    async def next_id() -> int:
        return next(LEDGER_IDS)

    made = BookKeeper(metadata, channels, bookies=lambda: bookies, next_ledger_id=next_id, rng=Random(7))
    try:
        yield made
    finally:
        await made.close()
        await channels.close()
        await metadata.close()


async def append(writer: WriteHandle, payloads: list[bytes]) -> None:
    done: asyncio.Future[Append] = asyncio.get_running_loop().create_future()
    writer.append(payloads, done.set_result)
    error = (await done).error
    if error is not None:
        raise error


def payloads_of(first: int, count: int) -> list[bytes]:
    return [b"%d " % number * (number % 50) for number in range(first, first + count)]


@BOTH
@pytest.mark.parametrize("digest", list(DigestType), ids=lambda digest: digest.name)
async def test_ledgers_on_apaches_and_our_bookies_read_back(
    cluster: Cluster, apache: list[str], ours: str, use_v2: bool, digest: DigestType
) -> None:
    async with client(cluster, [*apache, ours], use_v2) as bookkeeper:
        writer = await bookkeeper.create_ledger(
            ensemble_size=3, write_quorum=3, ack_quorum=2, digest_type=digest, password=PASSWORD
        )
        for first in range(0, 1000, 100):
            await append(writer, payloads_of(first, 100))
        await writer.close()
        reader = await bookkeeper.open_ledger(writer.ledger_id, password=PASSWORD)
        entries: list[bytes] = []
        while len(entries) < 1000:
            entries += await reader.read(len(entries), 999)
        assert [entry[reader.payload_offset :] for entry in entries] == payloads_of(0, 1000)


@BOTH
async def test_recovery_fences_a_writer_on_striped_ledgers(
    cluster: Cluster, apache: list[str], ours: str, use_v2: bool
) -> None:
    async with client(cluster, [*apache, ours], use_v2) as first, client(cluster, [*apache, ours], use_v2) as second:
        writer = await first.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, password=PASSWORD)
        await append(writer, payloads_of(0, 50))
        recovered = await second.open_ledger(writer.ledger_id, password=PASSWORD)
        assert recovered.last_add_confirmed == 49
        with pytest.raises(LedgerFenced):
            await append(writer, payloads_of(50, 10))


@BOTH
async def test_apaches_client_fences_our_writer_on_our_bookie(cluster: Cluster, ours: str, use_v2: bool) -> None:
    async with client(cluster, [ours], use_v2) as bookkeeper:
        writer = await bookkeeper.create_ledger(password=PASSWORD)
        await append(writer, payloads_of(0, 50))
        judge = cluster.judge("v2" if use_v2 else "v3", f"recover:{writer.ledger_id}")
        output, _ = await asyncio.to_thread(judge.communicate, timeout=180)
        assert "RECOVERED 49" in output.splitlines()
        with pytest.raises(LedgerFenced):
            await append(writer, payloads_of(50, 10))


@BOTH
async def test_our_client_fences_apaches_writer_on_our_bookie(cluster: Cluster, ours: str, use_v2: bool) -> None:
    judge = cluster.judge("v2" if use_v2 else "v3", f"recovered-elsewhere:{ours}")
    assert judge.stdout is not None
    lines = iter(judge.stdout)
    line = await asyncio.to_thread(lambda: next(line for line in lines if line.startswith("LEDGER ")))
    async with client(cluster, [ours], use_v2) as bookkeeper:
        recovered = await bookkeeper.open_ledger(int(line.split()[1]), password=PASSWORD)
        assert recovered.last_add_confirmed == 49
    output, _ = await asyncio.to_thread(judge.communicate, "\n", 60)
    assert f"PASS recovered-elsewhere:{ours}" in output.splitlines()


@BOTH
async def test_every_verb_of_the_channel_works_on_apaches_bookie(apache: list[str], use_v2: bool) -> None:
    address = address_in_id(apache[0])
    channel = WireChannel(apache[0], lambda: address, WireConfig(use_v2_wire_protocol=use_v2))
    ledger_id = next(LEDGER_IDS)
    codec = EntryCodec(ledger_id, DigestType.CRC32C, PASSWORD)
    entries = [codec.pack_run(number, number - 1, 0, [b"payload %d" % number])[0] for number in range(20)]

    async def add(first: int, count: int, flags: int = 0) -> list[int]:
        codes: list[int] = []
        ids = range(first, first + count)
        told = asyncio.Event()

        def done(some: object, rc: int) -> None:
            codes.append(rc)
            told.set()

        channel.add_entries(ledger_id, KEY, ids, entries[first : first + count], flags, done)
        async with asyncio.timeout(60):
            await told.wait()
        return codes

    assert await add(0, 10) == [BookieRc.EOK]
    assert await channel.read_entry(ledger_id, 3) == entries[3]
    assert await channel.read_entry(ledger_id, LAST_ENTRY) == entries[9]
    assert await channel.read_entries(ledger_id, 0, 10, 1 << 20) == entries[:10]
    with pytest.raises(BookieError, match="ENOENTRY"):
        await channel.read_entry(ledger_id, 10)
    assert (await channel.read_lac(ledger_id)).last_entry == entries[9]
    await channel.write_lac(ledger_id, 9, KEY, codec.pack_lac(9))
    assert (await channel.read_lac(ledger_id)).explicit == codec.pack_lac(9)
    with pytest.raises(BookieError, match="EBADREQ"):
        await channel.write_lac(ledger_id, 9, KEY, b"no packet")
    assert (await channel.long_poll(ledger_id, 2, 20_000)) == (9, 3, entries[3])
    waiting = asyncio.create_task(channel.long_poll(ledger_id, 9, 20_000))
    assert await add(10, 2) == [BookieRc.EOK]
    assert (await waiting) == (10, 10, entries[10])
    await channel.force_ledger(ledger_id)
    info = await channel.bookie_info()
    assert 0 < info.free_disk_bytes < info.total_disk_bytes
    assert await channel.read_entry(ledger_id, LAST_ENTRY, ReadFlags.FENCING, KEY) == entries[11]
    assert await add(12, 1) == [BookieRc.EFENCED]
    assert await add(12, 1, AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY) == [BookieRc.EOK]
    await channel.close()
