"""Our bookies behind real ports, and ledger clients that reach them by TCP."""

import itertools
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.wire_server import BookieWireServer
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.wire_channel import WireChannels, address_in_id
from magnetar.storage.ledger.wire_config import WireConfig
from tests.storage.bookie.helpers import running

TlsContext = Callable[[], ssl.SSLContext] | None

BOTH = pytest.mark.parametrize("use_v2", [True, False], ids=["v2", "v3"])


class Node:
    """A bookie and its port."""

    def __init__(self, bookie: Bookie, tls: TlsContext = None) -> None:
        self.server = BookieWireServer(bookie, disk_space=lambda: (2, 1), tls=tls)
        self.bookie_id = ""

    async def start(self) -> None:
        self.bookie_id = f"127.0.0.1:{await self.server.start('127.0.0.1', 0)}"


@asynccontextmanager
async def nodes(folder: Path, count: int, tls: TlsContext = None) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        made = [Node(await stack.enter_async_context(running(folder / str(number))), tls) for number in range(count)]
        for node in made:
            await node.start()
            stack.push_async_callback(node.server.close)
        yield made


@asynccontextmanager
async def client(
    metadata: MemoryStore,
    cluster: list[Node],
    use_v2: bool,
    config: LedgerConfig | None = None,
    tls: TlsContext = None,
) -> AsyncIterator[BookKeeper]:
    ids = itertools.count(1)
    wire = WireConfig(use_v2_wire_protocol=use_v2, reconnect_delay_min_sec=0.01, tls=tls)
    channels = WireChannels(address_in_id, wire)

    async def next_id() -> int:
        return next(ids)

    made = BookKeeper(
        metadata,
        channels,
        bookies=lambda: [node.bookie_id for node in cluster],
        next_ledger_id=next_id,
        rng=Random(3),
        config=config,
    )
    try:
        yield made
    finally:
        await made.close()
        await channels.close()
