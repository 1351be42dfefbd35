"""Three real servers, of which the leader is killed, or the one of our link hangs: nothing is lost or done twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, MutableSequence
from pathlib import Path
from typing import Any

import pytest

from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.recorder import Recorder
from tests.metadata.zookeeper.zookeeper_events import SessionRecorder
from tests.metadata.zookeeper.zookeeper_load import WORKERS, Writers
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, ensemble
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow]

SESSION_MS = 10_000


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZooKeeperServer]]:
    found = ensemble(tmp_path_factory.mktemp("ensemble"))

    async def ready() -> None:
        await asyncio.gather(*(server.ready() for server in found))

    try:
        for server in found:
            server.launch()
        asyncio.run(ready())
        yield found
    finally:
        for server in found:
            server.kill()


@pytest.fixture
async def store(servers: list[ZooKeeperServer]) -> AsyncIterator[ZooKeeperStore]:
    connect = ",".join(server.address for server in servers) + "/app"
    store = await ZooKeeperStore.open(connect, session_timeout_ms=SESSION_MS, rng=random.Random(1))
    yield store
    await store.close()


async def leader_of(servers: list[ZooKeeperServer]) -> ZooKeeperServer:
    modes = await asyncio.gather(*(server.mode() for server in servers))
    return servers[modes.index("leader")]


async def test_the_leader_is_killed_under_load(store: ZooKeeperStore, servers: list[ZooKeeperServer]) -> None:
    writers = await Writers.begin(store)
    await store.create("/watched")
    await store.create("/alive", ephemeral=True)
    session, events, watched = store.session_id, SessionRecorder(store), Recorder()
    store.watch("/watched", watched)
    leader = await leader_of(servers)
    writers.start()
    await until(lambda: writers.rounds > 5 * WORKERS)
    leader.kill()
    await events.until(SessionEvent.DISCONNECTED)  # clients of a follower are cut off, too, when its leader goes
    await events.until(SessionEvent.CONNECTED)
    before = writers.rounds
    await until(lambda: writers.rounds > before + 5 * WORKERS)
    await writers.stop()
    leader.launch()
    await leader.ready()

    assert store.session_id == session
    assert await store.owns("/alive")
    await writers.check()
    assert writers.unknown <= WORKERS
    await store.put("/watched", b"")
    await until(lambda: bool(watched.events))


class InOrder(random.Random):
    """Leaves the servers in the order of the connect string."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


async def test_after_a_sync_another_server_knows_what_was_written(servers: list[ZooKeeperServer]) -> None:
    """This holds for a follower. The leader answers a sync at once, and may tell others of a commit before it knows
    it."""
    leader = await leader_of(servers)
    in_order = sorted(servers, key=lambda server: server is leader)
    stores = [await ZooKeeperStore.open(f"{server.address}/synced") for server in in_order]
    try:
        await stores[0].create("/a")
        for number in range(1, 50):
            writer, reader = stores[number % 3], stores[(number + 1) % 3 % 2]
            await writer.sync()
            await writer.put("/a", b"%d" % number, number - 1)
            await reader.sync()
            record = await reader.get("/a")
            assert record is not None
            assert record.value == b"%d" % number
    finally:
        await asyncio.gather(*(store.close() for store in stores))


async def test_a_hanging_server_is_left_for_another(servers: list[ZooKeeperServer]) -> None:
    leader = await leader_of(servers)
    hanging, *others = sorted(servers, key=lambda server: server is leader)
    connect = ",".join(server.address for server in (hanging, *others)) + "/hanging"
    store = await ZooKeeperStore.open(connect, session_timeout_ms=SESSION_MS, rng=InOrder())
    session, events = store.session_id, SessionRecorder(store)
    created = await store.create("/e", ephemeral=True)
    start = asyncio.get_running_loop().time()
    hanging.pause()
    try:
        assert (await store.put(created.path, b"v")).version == 1
        assert asyncio.get_running_loop().time() - start < SESSION_MS / 1000
        await events.until(SessionEvent.CONNECTED)
        assert store.session_id == session
        assert await store.owns("/e")
    finally:
        hanging.resume()
        await store.close()


def test_an_ensemble_knows_its_folder(tmp_path: Path) -> None:
    servers = ensemble(tmp_path)
    assert [(server.folder / "data" / "myid").read_text() for server in servers] == ["1", "2", "3"]
    assert len({server.port for server in servers}) == 3
