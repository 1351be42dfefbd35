"""Whatever bytes reach the bookie's port, it stays up, other peers notice nothing, and nothing is left behind."""

import asyncio
import contextlib
import logging
from random import Random

import pytest

from magnetar.storage.bookie.wire_limits import WireLimits
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.pulsar_proto.vectors import load, unhex
from tests.storage.bookie.helpers import entry_of
from tests.storage.bookie.wire_support import Served
from tests.waiting import until

KEY = b"k" * 20
REQUESTS = [unhex(exchange["request"]) for exchange in load("bookkeeper_exchanges.json")]
ROUNDS = 150


def damaged(rng: Random) -> bytes:
    """Returns a few captured requests with bytes changed, dropped or doubled, unchanged ones, or plain noise."""
    stream = bytearray(b"".join(rng.choices(REQUESTS, k=rng.randint(1, 5))))
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(stream))
        match rng.randrange(4):
            case 0:
                stream[at] = rng.randrange(256)
            case 1:
                del stream[at : at + rng.randint(1, 30)]
            case 2:
                stream[at:at] = stream[at : at + rng.randint(1, 30)]
            case _:
                stream[at:at] = rng.randbytes(rng.randint(1, 8))
        if not stream:
            return rng.randbytes(20)
    return bytes(stream)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_peers_send_the_port_serves_on(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    rng = Random(seed)
    served = await Served.start(WireLimits(packet_bytes_max=1 << 20))
    good = await served.peer()
    caplog.set_level(logging.ERROR)
    for number in range(ROUNDS):
        peer = await served.peer()
        stream = damaged(rng)
        cut = rng.randrange(len(stream) + 1)
        peer.writer.write(stream[:cut])
        await asyncio.sleep(0)
        peer.writer.write(stream[cut:])
        if rng.random() < 0.5:
            with contextlib.suppress(ConnectionError):
                await peer.writer.drain()
        await peer.close()
        if number % 10 == 0:
            ledger_id = 1 << 40 | number
            add = v2.add_request(KEY, entry_of(ledger_id, 0))
            assert await good.ask(add) == v2.add_response(BookieRc.EOK, ledger_id, 0)
    v3_peer = await served.peer()
    read = v3.parse_response((await v3_peer.ask(v3.read_request(1, 1 << 40, 0)))[4:]).readResponse
    assert read.body == entry_of(1 << 40, 0)
    await good.close()
    await v3_peer.close()
    await until(lambda: served.server.connection_count == 0)
    assert served.server.inflight_bytes == 0
    assert served.server.parked_long_polls == 0
    await served.server.close()
    assert not caplog.records
