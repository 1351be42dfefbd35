"""The channel over TCP against bookies that cannot be reached, misbehave or are old."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from magnetar.storage.ledger.wire_channel import WireChannel
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.ledger.wire_connection import BookieConnection
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, BookieRc, ReadFlags
from pulsar_proto.wire.packets import packets
from tests.storage.ledger.channel_scene import BOTH, KEY, LOST, V2, Adds, entries_of
from tests.waiting import until

TIMED_OUT, TOO_MANY = -23, -105

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A bookie that takes everything and answers nothing."""
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
        async with asyncio.timeout(60):
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


@BOTH
async def test_an_answer_that_an_error_of_ours_hits_fails_what_waits_at_once(
    config: WireConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clumsy(connection: BookieConnection, data: bytes) -> int:
        raise RuntimeError("clumsy")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(b"anything")
        await hold(reader, writer)

    monkeypatch.setattr(BookieConnection, "_take_v2", clumsy)
    monkeypatch.setattr(BookieConnection, "_take_v3", clumsy)
    async with scripted(answer) as bookie:
        channel = WireChannel("b1", bookie.address, replace(config, add_entry_timeout_sec=3600))
        adds = Adds(channel)
        adds.add(5, range(3))
        assert await adds.told(1) == [([0, 1, 2], LOST)]
        await until(lambda: bookie.ended)
        await channel.close()


async def test_adds_that_waited_for_a_connection_count_no_longer_when_it_is_made_or_fails() -> None:
    """Each round fits into the bound. If a byte stayed counted, a later round would be refused."""
    is_known = False

    async def answers_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(b"GET / HTTP/1.1\r\n")

    async with scripted(answers_nonsense) as bookie:

        def address() -> tuple[str, int]:
            if not is_known:
                raise LookupError("nobody knows b1")
            return bookie.address()

        short = WireConfig(unanswered_bytes_max=10_000, reconnect_delay_min_sec=1e-9, reconnect_delay_max_sec=1e-9)
        channel = WireChannel("b1", address, short)
        adds = Adds(channel)
        for round_number in range(6):
            is_known = round_number >= 3
            adds.add(5, range(1), size=4_000)
            adds.add(5, range(1, 2), size=4_000)
            await adds.told(2 * (round_number + 1))
        assert adds.calls == [([0], LOST), ([1], LOST)] * 6
        await channel.close()


async def test_an_old_bookie_that_closes_at_a_batch_read_is_read_entry_by_entry() -> None:
    """A bookie older than 4.17 refuses a batch read in this way, because it cannot decode it."""
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


async def test_a_read_that_was_given_up_never_answers_a_later_fence() -> None:
    """The late answer to the plain read must not be taken for the fence's, so a new connection is made."""
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
