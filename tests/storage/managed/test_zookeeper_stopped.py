"""A real ZooKeeper is stopped under a managed ledger on three bookies: publishers do not notice."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.metadata import paths
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import EARLIEST
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.storage.ledger.wire_scene import nodes
from tests.storage.managed.support import CONFIG, NAME, read_all
from tests.waiting import until

pytestmark = pytest.mark.process

STOPPED_SECONDS = 15.0
PAUSE_SECONDS_MAX = 3.0
"""A busy machine stalls for a while. A publisher that waits for ZooKeeper would wait for most of STOPPED_SECONDS."""
EVERY_SECONDS = 0.01
"""How often the publisher publishes."""

LEDGER_ENTRIES_MAX = 50

SMALL_LEDGERS = replace(
    CONFIG,
    managed_ledger_default_ensemble_size=3,
    managed_ledger_default_write_quorum=3,
    managed_ledger_default_ack_quorum=2,
    managed_ledger_max_entries_per_ledger=LEDGER_ENTRIES_MAX,
    managed_ledger_cursor_max_entries_per_ledger=20,
)
"""Every ledger is full, and every cursor ledger due, long before ZooKeeper is back."""


class Publisher:
    """Publishes and acknowledges at a steady pace, and measures the longest time between two receipts."""

    def __init__(self, ledger: ManagedLedger) -> None:
        self.ledger = ledger
        self.sent: list[bytes] = []
        self.errors: list[object] = []
        self.received = 0
        self.longest_s = 0.0
        self._last_s = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self.cursor = await self.ledger.open_cursor("s", EARLIEST)
        self._last_s = time.monotonic()
        self._publish()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _publish(self) -> None:
        payload = b"%d" % len(self.sent)
        self.sent.append(payload)
        self.ledger.add_entries([payload], self._done)
        self._timer = asyncio.get_running_loop().call_later(EVERY_SECONDS, self._publish)

    def _done(self, result: AddResult) -> None:
        now_s = time.monotonic()
        self.longest_s, self._last_s = max(self.longest_s, now_s - self._last_s), now_s
        if result.error is not None:
            self.errors.append(result.error)
            return
        self.received += 1
        for ledger_id, first, count in result.runs:
            self.cursor.ack([(ledger_id, entry_id, None) for entry_id in range(first, first + count)])

    async def until(self, received: int) -> None:
        await until(lambda: self.received >= received or self.errors)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with running(tmp_path / "metadata") as one:
        yield one


async def test_publishers_and_consumers_go_on_while_zookeeper_is_stopped(
    server: ZooKeeperServer, tmp_path: Path
) -> None:
    async with nodes(tmp_path / "bookies", 3) as bookies:
        store = await ZooKeeperStore.open(server.address, session_timeout_ms=30_000)
        for bookie in bookies:
            await store.create(paths.bookie_path(bookie.bookie_id), ephemeral=True, make_parents=True)
        cluster = await BookKeeperCluster.connect(store)
        factory = ManagedLedgerFactory(
            store, cluster.bookkeeper, SMALL_LEDGERS, clock_ms=lambda: time.time_ns() // 1_000_000
        )
        ledger = await factory.open(NAME)
        publisher = Publisher(ledger)
        await publisher.start()
        try:
            await publisher.until(120)
            await until(lambda: ledger._appender.is_open and ledger._ledgers.current_entries <= 10)
            ledger_id, at_stop = ledger.last_confirmed.ledger_id, publisher.received
            server.pause()
            stopped = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(STOPPED_SECONDS, stopped.set_result, None)
            await stopped
            assert publisher.errors == []
            assert publisher.longest_s < PAUSE_SECONDS_MAX
            assert ledger.last_confirmed.entry_id > LEDGER_ENTRIES_MAX, (
                "the open ledger takes no entries beyond its limit"
            )
            assert publisher.received > at_stop + 200
            assert ledger.cursors["s"].backlog < 100
            server.resume()
            await until(lambda: ledger.last_confirmed.ledger_id != ledger_id)
            await publisher.until(publisher.received + 120)
            publisher.stop()
            await publisher.until(len(publisher.sent))
            assert publisher.errors == []
            assert publisher.longest_s < PAUSE_SECONDS_MAX
            assert await read_all(ledger) == publisher.sent
        finally:
            server.resume()
            publisher.stop()
            await factory.close()
            await cluster.close()
            await store.close()
