"""A session with a real ZooKeeper behind a proxy that misbehaves: links cut, silent servers, sessions that end."""

import asyncio

import pytest

from magnetar.metadata.errors import OutcomeUnknownError, StoreUnavailableError, StoreWriteError
from magnetar.metadata.store import EventType, SessionEvent
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.recorder import Recorder
from tests.metadata.zookeeper.zookeeper_events import SessionRecorder, end_session
from tests.metadata.zookeeper.zookeeper_proxy import AUTH, SET_WATCHES, WRITES, ZkProxy, once
from tests.metadata.zookeeper.zookeeper_scene import CALL_SECONDS, SESSION_MS
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer
from tests.waiting import until

pytestmark = pytest.mark.process

CHANGED = EventType.CHANGED
SESSION_SECONDS = SESSION_MS / 1000


async def test_a_cut_is_noticed_at_once_and_the_session_kept(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    session, recorder = store.session_id, SessionRecorder(store)
    await store.create("/e", ephemeral=True)
    start = asyncio.get_running_loop().time()
    proxy.cut()
    assert await recorder.until(SessionEvent.DISCONNECTED) - start < SESSION_SECONDS / 3, "not by its silence"
    assert await recorder.until(SessionEvent.CONNECTED) - start < SESSION_SECONDS * 0.6
    assert store.session_id == session
    assert await store.owns("/e")
    assert recorder.events == [SessionEvent.DISCONNECTED, SessionEvent.CONNECTED]


async def test_a_server_that_cuts_us_off_again_and_again_is_not_stormed(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    session, recorder = store.session_id, SessionRecorder(store)
    store.watch("/a", Recorder())
    await store.exists("/a")
    proxy.swallow = lambda opcode, answer: opcode != 0
    start, before = asyncio.get_running_loop().time(), proxy.connections
    proxy.cut()
    await until(lambda: recorder.events.count(SessionEvent.DISCONNECTED) >= 6)
    assert asyncio.get_running_loop().time() - start > 0.5
    assert proxy.connections - before < 10
    proxy.swallow = None
    assert await store.exists("/a") is None
    assert store.session_id == session


async def test_a_silent_server_is_left_before_the_session_ends(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    session, recorder = store.session_id, SessionRecorder(store)
    proxy.silent = True
    start = asyncio.get_running_loop().time()
    lost_after = await recorder.until(SessionEvent.DISCONNECTED) - start
    proxy.silent = False
    assert SESSION_SECONDS / 3 < lost_after < SESSION_SECONDS
    await recorder.until(SessionEvent.CONNECTED)
    assert store.session_id == session


async def test_failed_handshakes_do_not_give_the_session_up(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    session, recorder = store.session_id, SessionRecorder(store)
    await store.create("/e", ephemeral=True)
    proxy.refusing = True
    before = proxy.connections
    proxy.cut()
    await until(lambda: proxy.connections >= before + 4)
    assert proxy.connections < before + 40
    proxy.refusing = False
    start = asyncio.get_running_loop().time()
    assert await recorder.until(SessionEvent.CONNECTED) - start < SESSION_SECONDS * 0.6
    assert store.session_id == session
    assert await store.owns("/e")


async def test_an_idle_session_is_kept_by_pings(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    recorder = SessionRecorder(store)
    proxy.requests.clear()
    pings = zk_codec.frame(zk_codec.ping_body(), zk_codec.PING_XID)[4:]
    await until(lambda: proxy.requests.count(pings) >= 4)
    assert recorder.events == []


async def test_an_ended_session_is_told_and_a_new_one_begun(
    store: ZooKeeperStore, proxy: ZkProxy, server: ZooKeeperServer, direct: ZooKeeperStore
) -> None:
    session, recorder = store.session_id, SessionRecorder(store)
    events = Recorder()
    await store.create("/kept", b"0")
    store.watch("/kept", events)
    await store.create("/e", ephemeral=True)
    made: list[asyncio.Task[object]] = []

    def make_again(event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION:
            made.append(asyncio.ensure_future(store.create("/e", b"again", ephemeral=True)))

    store.on_session(make_again)
    proxy.refusing = True
    proxy.cut()
    await recorder.until(SessionEvent.DISCONNECTED)
    await end_session(store, server.port)
    proxy.refusing = False
    await recorder.until(SessionEvent.NEW_SESSION)
    await asyncio.gather(*made)
    assert store.session_id != session
    assert recorder.events == [SessionEvent.DISCONNECTED, SessionEvent.EXPIRED, SessionEvent.NEW_SESSION]
    assert await store.owns("/e")
    await direct.put("/kept", b"1")
    await events.until((CHANGED, "/kept"))


async def test_an_ephemeral_create_that_was_lost_with_its_session_is_made_in_the_next(
    store: ZooKeeperStore, proxy: ZkProxy, server: ZooKeeperServer
) -> None:
    recorder = SessionRecorder(store)

    def swallow_and_refuse(opcode: int, answer: bytes) -> bool:
        proxy.refusing = proxy.refusing or opcode in WRITES
        return opcode in WRITES

    proxy.swallow = once(swallow_and_refuse)
    created = asyncio.ensure_future(store.create("/e", b"v", ephemeral=True))
    await recorder.until(SessionEvent.DISCONNECTED)
    await end_session(store, server.port)
    proxy.refusing = False
    assert (await created).path == "/e"
    assert SessionEvent.NEW_SESSION in recorder.events
    assert await store.owns("/e")


async def test_a_request_too_long_is_refused_here_and_harms_no_other(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a")
    put = store.put("/a", b"x" * 1_048_576)
    others = [store.put("/a", b"y") for _ in range(10)]
    results = await asyncio.gather(put, *others, return_exceptions=True)
    assert isinstance(results[0], StoreWriteError)
    assert not any(isinstance(result, BaseException) for result in results[1:])
    assert (await store.put("/a", b"z" * 1_048_000)).version == 11
    assert proxy.connections == 1


async def test_authentication_comes_first_on_every_link(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a", b"v")
    store.watch("/a", Recorder())
    await store.get("/a")
    session = SessionRecorder(store)
    proxy.requests.clear()
    proxy.cut()
    await session.until(SessionEvent.CONNECTED)
    assert await store.exists("/a") is not None
    assert [int.from_bytes(request[4:8]) for request in proxy.requests[1:3]] == [AUTH, SET_WATCHES]


async def test_every_call_ends_in_its_time(proxy: ZkProxy, chroot: str, direct: ZooKeeperStore) -> None:
    store = await ZooKeeperStore.open(proxy.address + chroot, session_timeout_ms=3_000, call_timeout_seconds=1.5)
    try:
        await store.create("/a")
        proxy.silent = True
        start = asyncio.get_running_loop().time()
        sent = [asyncio.ensure_future(store.get("/a")), asyncio.ensure_future(store.put("/a", b""))]
        await until(lambda: not store.is_connected)
        unsent = [asyncio.ensure_future(store.put("/a", b""))]
        await asyncio.wait([*sent, *unsent])
        assert asyncio.get_running_loop().time() - start < 15, "not those 30 s that calls have by default"
        errors = [type(call.exception()) for call in (*sent, *unsent)]
        assert errors == [StoreUnavailableError, OutcomeUnknownError, StoreWriteError]
    finally:
        await store.close()


async def test_a_store_without_a_server_closes_at_once(proxy: ZkProxy, store: ZooKeeperStore) -> None:
    proxy.refusing = True
    proxy.cut()
    await until(lambda: not store.is_connected)
    async with asyncio.timeout(CALL_SECONDS / 2):
        await store.close()


async def test_no_server_is_said_so(proxy: ZkProxy, caplog: pytest.LogCaptureFixture) -> None:
    proxy.refusing = True
    with pytest.raises(StoreUnavailableError, match=f"^{proxy.address}: no ZooKeeper server answers within 0.3 s$"):
        await ZooKeeperStore.open(proxy.address, call_timeout_seconds=0.3)
    (line,) = (one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert line == f"no session with ZooKeeper, trying on: {proxy.address}", "said once, while it is waited for"
