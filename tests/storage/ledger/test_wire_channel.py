"""The channel over TCP against our own port with a bookie in memory."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from magnetar.storage.ledger.wire_channel import WireChannel, WireChannels, address_in_id
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.records.entry_digest import DigestType, EntryCodec
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, AddFlags, BookieError, BookieRc, ReadFlags
from tests.storage.bookie.wire_support import FREE_BYTES, TOTAL_BYTES, Served
from tests.storage.ledger.channel_scene import BOTH, KEY, LOST, V2, V3, Adds, entries_of
from tests.waiting import until

OTHER_KEY = hashlib.sha1(b"other").digest()


@asynccontextmanager
async def served(config: WireConfig) -> AsyncIterator[tuple[Served, WireChannel]]:
    bookie = await Served.start()
    channel = WireChannel("b1", lambda: ("127.0.0.1", bookie.port), config)
    try:
        yield bookie, channel
    finally:
        await channel.close()
        await bookie.server.close()


@BOTH
async def test_groups_are_stored_and_told_whole(config: WireConfig) -> None:
    async with served(config) as (bookie, channel):
        adds = Adds(channel)
        for first in range(0, 300, 100):
            adds.add(5, range(first, first + 100))
        assert await adds.told(3) == [(list(range(first, first + 100)), 0) for first in range(0, 300, 100)]
        assert bookie.bookie.ledgers[5].entries == dict(enumerate(entries_of(5, range(300))))
        assert bookie.bookie.ledgers[5].master_key == KEY


@BOTH
async def test_reads_bring_what_was_stored(config: WireConfig) -> None:
    async with served(config) as (_, channel):
        adds, entries = Adds(channel), entries_of(5, range(10))
        adds.add(5, range(10))
        await adds.told(1)
        assert await channel.read_entry(5, 3) == entries[3]
        assert await channel.read_entry(5, LAST_ENTRY) == entries[9]
        assert await channel.read_entries(5, 2, 4, 1 << 20) == entries[2:6]
        assert await channel.read_entries(5, 8, 100, 1 << 20) == entries[8:]
        assert await channel.read_entries(5, 0, 100, 1) == entries[:1]
        assert 1 <= len(await channel.read_entries(5, 0, 100, 3 * len(entries[0]))) <= 3
        many = await asyncio.gather(*(channel.read_entry(5, i % 10) for i in range(200)))
        assert many == [entries[i % 10] for i in range(200)]


@BOTH
async def test_refusals_arrive_as_their_codes(config: WireConfig) -> None:
    async with served(config) as (bookie, channel):
        adds = Adds(channel)
        adds.add(5, range(2))
        adds.add(5, range(2, 4), key=OTHER_KEY)
        assert sorted(await adds.told(2)) == [([0, 1], BookieRc.EOK), ([2, 3], BookieRc.EUA)]
        for reading, rc in (
            (channel.read_entry(5, 99), BookieRc.ENOENTRY),
            (channel.read_entries(6, 0, 10, 1000), BookieRc.ENOLEDGER),
            (channel.read_entry(5, LAST_ENTRY, ReadFlags.FENCING, OTHER_KEY), BookieRc.EUA),
        ):
            with pytest.raises(BookieError) as refused:
                await reading
            assert refused.value.rc is rc
        assert not bookie.bookie.ledgers[5].fenced


@BOTH
async def test_a_fence_stops_writers_but_not_recovery(config: WireConfig) -> None:
    async with served(config) as (bookie, channel):
        adds = Adds(channel)
        adds.add(5, range(2))
        await adds.told(1)
        assert await channel.read_entry(5, LAST_ENTRY, ReadFlags.FENCING, KEY) == entries_of(5, [1])[0]
        assert bookie.bookie.ledgers[5].fenced
        adds.add(5, range(2, 3))
        adds.add(5, range(2, 3), AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY)
        assert sorted((await adds.told(3))[1:]) == [([2], BookieRc.EOK), ([2], BookieRc.EFENCED)]


@BOTH
async def test_a_fence_waits_for_a_plain_read_of_the_same_entry_under_way(config: WireConfig) -> None:
    """In v2 the answer to the plain read could otherwise be taken for the fence's."""
    async with served(config) as (bookie, channel):
        adds = Adds(channel)
        adds.add(5, range(1))
        await adds.told(1)
        bookie.bookie.reads_may_go_on.clear()
        plain = asyncio.create_task(channel.read_entry(5, LAST_ENTRY))
        await until(lambda: bookie.bookie.reading == 1)
        fence = asyncio.create_task(channel.read_entry(5, LAST_ENTRY, ReadFlags.FENCING, KEY))
        second = asyncio.create_task(channel.read_entry(5, 0))
        await until(lambda: bookie.bookie.reading == (2 if config is V2 else 3))
        assert bookie.bookie.ledgers[5].fenced is (config is V3)
        bookie.bookie.reads_may_go_on.set()
        await asyncio.gather(plain, fence, second)
        assert bookie.bookie.ledgers[5].fenced


@BOTH
async def test_adds_keep_their_order_while_the_connection_is_made(config: WireConfig) -> None:
    async with served(config) as (bookie, channel):
        adds = Adds(channel)
        for entry_id in range(20):
            adds.add(5, [entry_id])
        await adds.told(20)
        assert [i for _, ids in bookie.bookie.groups for i in ids] == list(range(20))


@BOTH
async def test_a_lost_connection_fails_what_is_unanswered_and_the_next_use_connects_again(config: WireConfig) -> None:
    async with served(config) as (bookie, channel):
        adds = Adds(channel)
        adds.add(5, range(1))
        await adds.told(1)
        bookie.bookie.hold()
        adds.add(5, range(1, 4))
        bookie.bookie.reads_may_go_on.clear()
        reading = asyncio.create_task(channel.read_entry(5, 0))
        await until(lambda: len(bookie.bookie.groups) == 2 and bookie.bookie.reading)
        for connection in bookie.server.connections:
            connection.abort()
        with pytest.raises(ConnectionError):
            await reading
        assert (await adds.told(2))[1] == ([1, 2, 3], LOST)
        bookie.bookie.release()
        bookie.bookie.reads_may_go_on.set()
        adds.add(5, range(1, 4))
        assert (await adds.told(3))[2] == ([1, 2, 3], 0)


@BOTH
async def test_what_only_v3_has_works_from_either_protocol(config: WireConfig) -> None:
    async with served(config) as (_, channel):
        adds = Adds(channel)
        adds.add(5, range(3))
        await adds.told(1)
        assert (await channel.bookie_info()) == (TOTAL_BYTES, FREE_BYTES)
        await channel.force_ledger(5)
        assert await channel.list_entries(5) == [range(3)]
        assert await channel.read_lac(5) == (None, entries_of(5, [2])[0])
        packet = EntryCodec(5, DigestType.CRC32C, b"secret").pack_lac(2)
        await channel.write_lac(5, 2, KEY, packet)
        assert (await channel.read_lac(5)).explicit == packet
        with pytest.raises(BookieError, match="EUA"):
            await channel.write_lac(5, 2, OTHER_KEY, packet)
        for bad in (b"short", EntryCodec(6, DigestType.CRC32C, b"secret").pack_lac(2)):
            with pytest.raises(BookieError, match="EBADREQ"):
                await channel.write_lac(5, 2, KEY, bad)
        with pytest.raises(BookieError, match="ENOENTRY"):
            await channel.read_lac(99)
        assert await channel.long_poll(5, 0, 60_000) == (2, 1, entries_of(5, [1])[0])
        waiting = asyncio.create_task(channel.long_poll(5, 2, 60_000))
        adds.add(5, range(3, 5))
        assert await waiting == (3, 3, entries_of(5, [3])[0])
        assert await channel.long_poll(5, 3, 1) == (3, -1, None)


async def test_one_channel_a_bookie_and_none_without_an_address() -> None:
    channels = WireChannels(address_in_id)
    assert channels("host:3181") is channels("host:3181")
    assert channels("host:3181") is not channels("host:3182")
    for bad in ("bookie-1", ":3181", "host:0", "host:65536", "host:x"):
        with pytest.raises(LookupError):
            channels(bad)
    assert address_in_id("::1:3181") == ("::1", 3181)
    await channels.close()
