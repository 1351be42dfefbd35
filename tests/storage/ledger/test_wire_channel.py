"""The channel over TCP against our own port with a bookie in memory, and against bookies that misbehave."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from pulsar_proto import bookie_wire as v2
from pulsar_proto.bookie_wire import LAST_ENTRY, AddFlags, BookieError, BookieRc, ReadFlags
from pulsar_proto.entry_digest import DigestType, EntryCodec, master_key
from pulsar_proto.packets import packets
from storage.ledger.wire_channel import WireChannel, WireChannels, address_in_id
from storage.ledger.wire_connection import WireConfig
from tests.storage.bookie.wire_support import FREE_BYTES, TOTAL_BYTES, Served, until

KEY = master_key(b"secret")
OTHER_KEY = hashlib.sha1(b"other").digest()
LOST, TIMED_OUT, TOO_MANY = -8, -23, -105

V2 = WireConfig()
V3 = WireConfig(use_v2_wire_protocol=False)
BOTH = pytest.mark.parametrize("config", [V2, V3], ids=["v2", "v3"])


def entries_of(ledger_id: int, ids: Sequence[int], size: int = 10) -> list[bytes]:
    codec = EntryCodec(ledger_id, DigestType.CRC32C, b"secret")
    return [codec.pack_run(entry_id, entry_id - 1, 0, [bytes(size)])[0] for entry_id in ids]


class Adds:
    """Adds to a channel, and what became of them."""

    def __init__(self, channel: WireChannel) -> None:
        self._channel = channel
        self.calls: list[tuple[list[int], int]] = []

    def add(self, ledger_id: int, ids: Sequence[int], flags: int = 0, key: bytes = KEY, size: int = 10) -> None:
        before = len(self.calls)
        self._channel.add_entries(ledger_id, key, ids, entries_of(ledger_id, ids, size), flags, self._done)
        assert len(self.calls) == before, "told from inside add_entries"

    def _done(self, ids: Sequence[int], rc: int) -> None:
        self.calls.append((list(ids), rc))

    async def told(self, calls: int) -> list[tuple[list[int], int]]:
        await until(lambda: len(self.calls) >= calls)
        return self.calls


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
    """In v2 the answer to the plain read could else be taken for the fence's."""
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


async def test_an_unreachable_bookie_fails_at_once_during_the_back_off() -> None:
    attempts = 0

    def nowhere() -> tuple[str, int]:
        nonlocal attempts
        attempts += 1
        raise LookupError("nobody knows b1")

    channel = WireChannel("b1", nowhere, WireConfig(reconnect_delay_min_sec=60, reconnect_delay_max_sec=60))
    adds = Adds(channel)
    adds.add(5, range(3))
    with pytest.raises(ConnectionError, match="nobody knows b1"):
        await channel.read_entry(5, 0)
    adds.add(5, range(3, 5))
    assert await adds.told(2) == [([0, 1, 2], LOST), ([3, 4], LOST)]
    assert attempts == 1
    await channel.close()


@BOTH
async def test_silent_bookies_cost_a_timeout_and_the_connection(config: WireConfig) -> None:
    impatient = WireConfig(
        use_v2_wire_protocol=config.use_v2_wire_protocol, add_entry_timeout_sec=0.05, read_entry_timeout_sec=0.05
    )
    async with scripted(hold) as bookie:
        channel = WireChannel("b1", bookie.address, impatient)
        adds = Adds(channel)
        adds.add(5, range(3))
        with pytest.raises((TimeoutError, ConnectionError)):
            await channel.read_entry(5, 0)
        ((ids, rc),) = await adds.told(1)
        assert ids == [0, 1, 2]
        assert rc in (TIMED_OUT, LOST)
        await until(lambda: bookie.ended == 1)
        await channel.close()


async def test_an_add_that_is_never_answered_times_out_and_the_rest_goes_on() -> None:
    async def reads_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(4)
            request = v2.decode_request(await reader.readexactly(int.from_bytes(head, "big")))
            if isinstance(request, v2.ReadRequest):
                writer.write(v2.read_response(BookieRc.EOK, request.ledger_id, request.entry_id, b"entry"))

    async with scripted(reads_only) as bookie:
        channel = WireChannel("b1", bookie.address, WireConfig(add_entry_timeout_sec=0.05))
        adds = Adds(channel)
        adds.add(5, range(3))
        async with asyncio.timeout(10):
            while not adds.calls:
                assert await channel.read_entry(5, 0) == b"entry"
        assert adds.calls == [([0, 1, 2], TIMED_OUT)]
        assert await channel.read_entry(5, 0) == b"entry"
        assert bookie.ended == 0
        await channel.close()


async def test_a_further_add_beyond_the_bound_is_refused_at_once() -> None:
    async with scripted(hold) as bookie:
        channel = WireChannel("b1", bookie.address, WireConfig(unanswered_bytes_max=10_000))
        adds = Adds(channel)
        adds.add(5, range(1), size=9_000)
        adds.add(5, range(1, 2), size=9_000)
        assert await adds.told(1) == [([1], TOO_MANY)]
        await channel.close()
        assert (await adds.told(2))[1] == ([0], LOST)


@BOTH
@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x04\x02\x63\0\0", b"\0\0\0\0"])
async def test_a_peer_that_is_no_bookie_loses_the_connection(config: WireConfig, answer: bytes) -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with scripted(babble) as bookie:
        channel = WireChannel("b1", bookie.address, config)
        adds = Adds(channel)
        adds.add(5, range(3))
        assert await adds.told(1) == [([0, 1, 2], LOST)]
        await channel.close()


async def test_an_old_bookie_that_closes_at_a_batch_read_is_read_entry_by_entry() -> None:
    """Facts 1.1: that is how a bookie before 4.17 refuses one."""
    entries = entries_of(5, range(3))
    batches = 0

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal batches
        while True:
            head = await reader.readexactly(4)
            request = v2.decode_request(await reader.readexactly(int.from_bytes(head, "big")))
            if isinstance(request, v2.BatchReadRequest):
                batches += 1
                return
            assert isinstance(request, v2.ReadRequest)
            found = request.entry_id < len(entries)
            rc = BookieRc.EOK if found else BookieRc.ENOENTRY
            entry = entries[request.entry_id] if found else b""
            writer.write(v2.read_response(rc, request.ledger_id, request.entry_id, entry))

    async with scripted(old) as bookie:
        channel = WireChannel("b1", bookie.address, V2)
        for _ in range(5):
            assert await channel.read_entries(5, 0, 10, 1 << 20) == entries
        assert batches == 2
        await channel.close()


async def test_answers_in_any_order_find_their_adds() -> None:
    async def backwards(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b""
        while len(list(packets(data))) < 20:
            data += await reader.read(1 << 16)
        for packet in reversed(list(packets(data))):
            request = v2.decode_request(packet.body)
            assert isinstance(request, v2.AddRequest)
            rc = BookieRc.EIO if request.entry_id == 13 else BookieRc.EOK
            writer.write(v2.add_response(rc, request.ledger_id, request.entry_id))
        await reader.read()

    async with scripted(backwards) as bookie:
        channel = WireChannel("b1", bookie.address, V2)
        adds = Adds(channel)
        adds.add(5, range(10))
        adds.add(5, range(10, 20))
        told = await adds.told(3)
        assert told == [([13], BookieRc.EIO), ([10, 11, 12, *range(14, 20)], 0), (list(range(10)), 0)]
        await channel.close()


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


async def test_a_read_that_was_given_up_never_answers_a_later_fence() -> None:
    """The plain read's late answer must not pass for the fence's: a new connection is made instead."""
    first_request = asyncio.Event()
    connections = 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await reader.read(1)
            first_request.set()
            await reader.read()
            return
        await reader.read(1)
        writer.write(v2.read_response(BookieRc.EOK, 5, LAST_ENTRY, b"after the fence"))
        await reader.read()

    async with scripted(slow) as bookie:
        channel = WireChannel("b1", bookie.address, V2)
        plain = asyncio.create_task(channel.read_entry(5, LAST_ENTRY))
        await first_request.wait()
        plain.cancel()
        await asyncio.wait([plain])
        with pytest.raises(ConnectionError):
            await channel.read_entry(5, LAST_ENTRY, ReadFlags.FENCING, KEY)
        assert await channel.read_entry(5, LAST_ENTRY, ReadFlags.FENCING, KEY) == b"after the fence"
        await channel.close()


# ---- bookies that misbehave -----------------------------------------------------------------------------------------

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes everything and answers nothing."""
    while await reader.read(1 << 16):
        pass


class Scripted:
    def __init__(self) -> None:
        self.port = 0
        self.ended = 0

    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Scripted]:
    bookie = Scripted()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            bookie.ended += 1
            writer.close()

    serving: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    bookie.port = server.sockets[0].getsockname()[1]
    try:
        yield bookie
    finally:
        server.close()
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
