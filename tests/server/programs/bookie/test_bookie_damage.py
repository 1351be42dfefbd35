"""Flipped bytes on one of three bookies are reported and never handed out as good, and our client reads from another
bookie."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from random import Random

import pytest

from compat_tests.bookkeeper.our_bookie import BookieStartFailed, OurBookie
from magnetar.metadata import paths
from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.wire_channel import WireChannel, WireChannels, address_in_id
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.records.entry_digest import DigestType, EntryCodec
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.storage.bookie.helpers import files_of, flip_byte

pytestmark = pytest.mark.process

ENTRIES = 400
PAYLOADS = [b"entry %d " % number * 30 for number in range(ENTRIES)]
DEADLINE_SECONDS = 30


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("zookeeper")) as server:
        asyncio.run(initialize(server.address))
        yield server


async def initialize(address: str) -> None:
    store = await ZooKeeperStore.open(address)
    for path, value in (
        (paths.READ_ONLY_BOOKIES, b""),
        (paths.LAYOUT, LAYOUT_VALUE),
        (paths.INSTANCE_ID, b"the-instance"),
    ):
        await store.create(path, value, make_parents=True)
    await store.close()


@pytest.fixture(scope="module")
def bookies(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OurBookie]]:
    folder = tmp_path_factory.mktemp("bookies")
    made = [OurBookie(folder / str(number), zookeeper.address) for number in range(3)]
    try:
        for bookie in made:
            bookie.spawn()
        for bookie in made:
            bookie.await_ready()
        yield made
    finally:
        for bookie in made:
            bookie.kill()


class Ledgers:
    """Our client on the three bookies, with ledgers to write and read."""

    def __init__(self, bookkeeper: BookKeeper, bookies: list[OurBookie]) -> None:
        self.bookkeeper = bookkeeper
        self.bookies = bookies

    async def written(self) -> int:
        """Writes and closes a ledger of which all three bookies have every entry, and returns its id."""
        writer = await self.bookkeeper.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
        done: asyncio.Future[Append] = asyncio.get_running_loop().create_future()
        writer.append(PAYLOADS, done.set_result)
        assert (await done).error is None
        await writer.close()
        return writer.ledger_id

    async def check(self, ledger_id: int) -> None:
        reader = await self.bookkeeper.open_ledger(ledger_id)
        found: list[bytes] = []
        while len(found) < ENTRIES:
            found += [entry[reader.payload_offset :] for entry in await reader.read(len(found), ENTRIES - 1)]
        assert found == PAYLOADS


LEDGER_IDS = itertools.count(1)


@pytest.fixture
async def ledgers(zookeeper: ZooKeeperServer, bookies: list[OurBookie]) -> AsyncIterator[Ledgers]:
    store = await ZooKeeperStore.open(zookeeper.address)
    channels = WireChannels(address_in_id, WireConfig())

    async def next_id() -> int:
        return next(LEDGER_IDS)

    ids = [bookie.bookie_id for bookie in bookies]
    bookkeeper = BookKeeper(store, channels, bookies=lambda: ids, next_ledger_id=next_id, rng=Random(1))
    yield Ledgers(bookkeeper, bookies)
    await bookkeeper.close()
    await channels.close()
    await store.close()


async def read_each(bookie: OurBookie, ledger_id: int) -> list[BookieRc]:
    """Reads every entry from this bookie alone. EOK stands only for an entry whose digest and payload are right."""
    address = address_in_id(bookie.bookie_id)
    channel = WireChannel(bookie.bookie_id, lambda: address, WireConfig())
    codec = EntryCodec(ledger_id, DigestType.CRC32C, b"")
    found: list[BookieRc] = []
    for number in range(ENTRIES):
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                entry = await channel.read_entry(ledger_id, number)
        except BookieError as error:
            found.append(error.rc)
        else:
            assert entry[codec.payload_offset :] == PAYLOADS[number], "damage was handed out as good"
            found.append(BookieRc.EOK)
    await channel.close()
    return found


async def test_a_damaged_entry_log_is_named_and_its_entries_come_from_another_bookie(ledgers: Ledgers) -> None:
    ledger_id = await ledgers.written()
    victim = ledgers.bookies[0]
    victim.stop()
    log = files_of(victim.folder / "ledgers", ".log")[-1]
    flip_byte(log, log.stat().st_size // 2)
    victim.start()
    codes = await read_each(victim, ledger_id)
    assert set(codes) == {BookieRc.EOK, BookieRc.EIO}
    assert f"entry log {log} is damaged at offset" in victim.log
    await ledgers.check(ledger_id)


async def test_a_damaged_journal_refuses_the_start_and_the_ledger_is_read_from_the_others(ledgers: Ledgers) -> None:
    victim = ledgers.bookies[1]
    first = await ledgers.written()
    second = await ledgers.written()
    victim.kill()
    journal = files_of(victim.folder / "journal", ".journal")[-1]
    data = journal.read_bytes()
    flip_byte(journal, data.index(PAYLOADS[100]))
    refusal = victim.refused_start()
    assert f"journal {journal} is damaged at offset" in refusal
    assert "decommissionbookie" in refusal
    assert "skipDamagedJournal" not in refusal, "its ledgers would be closed short of what it lost"
    for ledger_id in (first, second):
        await ledgers.check(ledger_id)
    journal.write_bytes(data)
    victim.start()
    assert set(await read_each(victim, first)) == {BookieRc.EOK}


@pytest.mark.parametrize("part", [0.1, 0.5, 0.97])
async def test_a_damaged_index_refuses_the_start_or_its_entries(ledgers: Ledgers, part: float) -> None:
    """The bookie must never say "no such entry", because a recovery would believe it."""
    ledger_id = await ledgers.written()
    victim = ledgers.bookies[2]
    victim.stop()
    index = victim.folder / "ledgers" / "index"
    path = max(index.glob("*.sst"), key=lambda table: table.stat().st_mtime)
    content = path.read_bytes()
    flip_byte(path, int(len(content) * part))
    refusal = None
    try:
        victim.start()
    except BookieStartFailed as refused:
        refusal = str(refused).splitlines()[-1]
    if refusal is None:
        assert set(await read_each(victim, ledger_id)) <= {BookieRc.EOK, BookieRc.EIO}
        victim.stop()
    else:
        assert re.match(f"magnetar: the index {index} (cannot be opened|is damaged): Corruption", refusal)
    await ledgers.check(ledger_id)
    path.write_bytes(content)
    victim.start()
    assert set(await read_each(victim, ledger_id)) == {BookieRc.EOK}
