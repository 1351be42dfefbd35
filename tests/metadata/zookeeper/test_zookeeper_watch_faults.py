"""Watches on a real ZooKeeper whose link is lost: they report what they missed, and are armed again."""

import asyncio
import random
from functools import partial

import pytest

from magnetar.metadata.store import EventType, SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.recorder import Recorder
from tests.metadata.zookeeper.zookeeper_events import SessionRecorder
from tests.metadata.zookeeper.zookeeper_proxy import EXISTS, SET_WATCHES, ZkProxy, once
from tests.waiting import until

pytestmark = pytest.mark.process

CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED
CHILDREN = EventType.CHILDREN_CHANGED


async def test_watches_tell_what_was_missed_and_nothing_else(
    store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore
) -> None:
    for name in ("same", "changed", "deleted", "parent"):
        await direct.create(f"/{name}")
    recorders = {name: Recorder() for name in ("same", "changed", "deleted", "parent", "born", "never")}
    for name, recorder in recorders.items():
        store.watch(f"/{name}", recorder)
    below = Recorder()
    store.watch("/parent", below, recursive=True)
    await store.get("/same")
    session = SessionRecorder(store)
    proxy.refusing = True
    proxy.cut()
    await session.until(SessionEvent.DISCONNECTED)
    await direct.put("/changed", b"1")
    await direct.delete("/deleted")
    await direct.create("/parent/child")
    await direct.create("/born")
    proxy.refusing = False
    await recorders["changed"].until((CHANGED, "/changed"))
    await recorders["deleted"].until((DELETED, "/deleted"))
    await recorders["parent"].until((CHILDREN, "/parent"))
    await recorders["born"].until((CREATED, "/born"))
    await below.until((CHANGED, "/parent"))
    await direct.put("/same", b"1")
    await direct.put("/parent/child", b"1")
    await recorders["same"].until((CHANGED, "/same"))
    await below.until((CHANGED, "/parent"), (CHANGED, "/parent/child"))


async def test_a_link_lost_while_watches_are_armed_is_repaired(
    store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore
) -> None:
    events, session = Recorder(), SessionRecorder(store)
    await store.create("/a")
    store.watch("/a", events)
    await store.get("/a")
    proxy.swallow = once(lambda opcode, answer: opcode == SET_WATCHES)
    proxy.cut()
    await session.until(SessionEvent.CONNECTED, since=3)
    await direct.put("/a", b"1")
    await events.until((CHANGED, "/a"))


async def test_what_was_missed_is_told_though_the_next_link_is_lost_as_well(
    store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore
) -> None:
    events, below, session = Recorder(), Recorder(), SessionRecorder(store)
    await store.create("/a")
    store.watch("/a", events)
    store.watch("/a", below, recursive=True)
    await store.get("/a")
    proxy.refusing = True
    proxy.cut()
    await session.until(SessionEvent.DISCONNECTED)
    await direct.put("/a", b"1")
    proxy.swallow = once(lambda opcode, answer: opcode == EXISTS)
    proxy.refusing = False
    await session.until(SessionEvent.CONNECTED, since=3)
    await events.until((CHANGED, "/a"))
    await below.until((CHANGED, "/a"))


async def test_more_watches_than_fit_in_a_request_are_armed_again(
    store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore
) -> None:
    events, session = Recorder(), SessionRecorder(store)
    for number in range(12_000):
        store.watch(f"/{'long-name-' * 9}{number}", events)
    store.watch("/last", events)
    await store.get("/")
    proxy.requests.clear()
    proxy.cut()
    await session.until(SessionEvent.CONNECTED)
    await store.get("/")
    armed = [request for request in proxy.requests if int.from_bytes(request[4:8]) == SET_WATCHES]
    assert len(armed) > 8
    assert max(map(len, armed)) < 140_000
    before = len(events.events)
    await direct.create("/last")
    await until(lambda: len(events.events) > before)
    assert events.events[-1] == (CREATED, "/last")


async def test_a_cancelled_watch_is_taken_off_the_server(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    session = SessionRecorder(store)
    events = Recorder()
    cancel = store.watch("/a", events)
    also = store.watch("/a", events, recursive=True)
    cancel()
    await store.create("/a")
    await events.until((CREATED, "/a"))
    also()
    await store.put("/a", b"")
    proxy.requests.clear()
    proxy.cut()
    await session.until(SessionEvent.CONNECTED)
    await store.put("/a", b"")
    assert all(int.from_bytes(request[4:8]) != SET_WATCHES for request in proxy.requests)
    await events.until((CREATED, "/a"))


@pytest.mark.parametrize("seed", range(4))
async def test_a_flapping_link_loses_no_change(
    store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore, seed: int
) -> None:
    """Each link is cut at some answer, the arming of watches and the looks after it included, while others write. A
    copy that is read again at each event, as caches do, must end as the records are."""
    rng = random.Random(seed)
    names = [f"/{kind}{number}" for kind in ("exact", "tree") for number in range(20)]
    copies = {name: Followed(store, name, recursive=name.startswith("/tree")) for name in names}
    for name in names[::2]:
        await direct.create(name)
    await asyncio.gather(*(each.read_once() for each in copies.values()))
    proxy.swallow = lambda opcode, answer: rng.random() < 0.2
    proxy.cut()
    for name in rng.sample(names, len(names)):
        connections = proxy.connections
        if await direct.exists(name) is None:
            await direct.create(name, b"born")
        elif rng.random() < 0.3:
            await direct.delete(name)
        else:
            await direct.put(name, b"changed")
        if rng.random() < 0.3:
            await until(partial(has_more_connections, proxy, connections))
    proxy.swallow = None
    truth = {name: await value_of(direct, name) for name in names}
    await until(lambda: {name: each.value for name, each in copies.items()} == truth)
    for each in copies.values():
        each.close()


def has_more_connections(proxy: ZkProxy, than: int) -> bool:
    return proxy.connections > than


async def value_of(store: ZooKeeperStore, name: str) -> bytes | None:
    record = await store.get(name)
    return None if record is None else record.value


class Followed:
    """Keeps a copy of a record, which it reads again when a watch reports a change."""

    def __init__(self, store: ZooKeeperStore, name: str, *, recursive: bool) -> None:
        self.value: bytes | None = None
        self._store = store
        self._name = name
        self._told = asyncio.Event()
        self._cancel = store.watch(name, lambda event: self._told.set(), recursive=recursive)
        self._reading = asyncio.ensure_future(self._follow())

    async def read_once(self) -> None:
        self.value = await value_of(self._store, self._name)

    async def _follow(self) -> None:
        while True:
            await self._told.wait()
            self._told.clear()
            await self.read_once()

    def close(self) -> None:
        self._cancel()
        self._reading.cancel()
