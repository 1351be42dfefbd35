"""When a connection between a ledger client and a bookie has ended, its objects are freed at both ends; see
`reference_counts`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from magnetar.storage.bookie.wire_server import _Accepted
from magnetar.storage.ledger.wire_channel import WireChannel
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.ledger.wire_connection import BookieConnection
from pulsar_proto.wire.bookie_wire import BookieError
from pulsar_proto.wire.packets import PACKET_BYTES_MAX
from tests.reference_counts import all_dead, collector_off
from tests.storage.bookie.wire_support import Peer, Served, adds
from tests.storage.ledger.channel_scene import V2, V3, Adds
from tests.waiting import until

VISITS = 5


async def says_nothing(bookie: Served) -> Peer:
    return await bookie.peer()


async def announces_a_long_packet(bookie: Served) -> Peer:
    peer = await bookie.peer()
    peer.writer.write((PACKET_BYTES_MAX - 4).to_bytes(4, "big") + b"\2\1")
    await peer.writer.drain()
    return peer


async def says_nonsense(bookie: Served) -> Peer:
    peer = await bookie.peer()
    assert await peer.ask(b"GET / HTTP/1.1\r\n\r\n") == b""
    return peer


async def adds_and_leaves(bookie: Served) -> Peer:
    peer = await bookie.peer()
    assert await peer.ask(adds(1, range(1)))
    return peer


async def leaves_adds_unanswered(bookie: Served) -> Peer:
    bookie.bookie.hold()
    groups = len(bookie.bookie.groups)
    peer = await bookie.peer()
    peer.writer.write(adds(1, range(1)))
    await until(lambda: len(bookie.bookie.groups) > groups)
    return peer


VISITORS: list[Callable[[Served], Awaitable[Peer]]] = [
    says_nothing,
    announces_a_long_packet,
    says_nonsense,
    adds_and_leaves,
    leaves_adds_unanswered,
]


@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("visitor", VISITORS)
def test_no_ended_connection_of_a_bookie_is_left(visitor: Any, loop: Any) -> None:
    async def scenario() -> None:
        bookie = await Served.start()
        for peer in [await visitor(bookie) for _ in range(VISITS)]:
            await peer.close()
        await until(lambda: not bookie.server.connection_count)
        bookie.bookie.release()
        await all_dead(_Accepted)
        await bookie.server.close()

    with collector_off(), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


async def reads_what_is_there(channel: WireChannel) -> None:
    told = Adds(channel)
    told.add(5, range(3))
    await told.told(1)
    await channel.read_entries(5, 0, 3, 1 << 20)


async def reads_what_is_not_there(channel: WireChannel) -> None:
    with pytest.raises(BookieError):
        await channel.read_entry(6, 0)


@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("config", [V2, V3], ids=["v2", "v3"])
def test_no_ended_connection_of_a_ledger_client_is_left(config: WireConfig, loop: Any) -> None:
    async def scenario() -> None:
        bookie = await Served.start()
        for _ in range(VISITS):
            channel = WireChannel("b1", lambda: ("127.0.0.1", bookie.port), config)
            await reads_what_is_there(channel)
            await reads_what_is_not_there(channel)
            await loses_its_connection_while_it_waits(bookie, channel)
            await channel.close()
            del channel
        await all_dead(BookieConnection)
        await bookie.server.close()

    with collector_off(), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


async def loses_its_connection_while_it_waits(bookie: Served, channel: WireChannel) -> None:
    bookie.bookie.reads_may_go_on.clear()
    bookie.bookie.hold()
    told = Adds(channel)
    told.add(5, range(3, 6))
    reading = asyncio.gather(channel.read_entry(5, 0), channel.read_entries(5, 1, 2, 1000), return_exceptions=True)
    await until(lambda: bookie.bookie.reading)
    for connection in bookie.server.connections:
        connection.abort()
    assert {type(each) for each in await reading} == {ConnectionResetError}
    await told.told(1)
    bookie.bookie.release()
    bookie.bookie.reads_may_go_on.set()
