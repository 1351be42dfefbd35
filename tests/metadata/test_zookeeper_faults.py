"""A real ZooKeeper behind a proxy that misbehaves: each fault that was found in aiozk's session is a test here."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from metadata import zk_codec
from metadata.errors import (
    BadVersionError,
    NodeExistsError,
    OutcomeUnknownError,
    StoreUnavailableError,
    StoreWriteError,
)
from metadata.store import CreateOp, EventType, PutOp
from metadata.zk_config import SessionEvent
from metadata.zookeeper import ZooKeeperStore
from tests.metadata.contract import Recorder
from tests.metadata.zookeeper_events import SessionRecorder, end_session, until
from tests.metadata.zookeeper_load import Writers
from tests.metadata.zookeeper_proxy import AUTH, EXISTS, SET_WATCHES, WRITES, ZkProxy, answers_of_writes, once
from tests.metadata.zookeeper_server import ZooKeeperServer, running

pytestmark = pytest.mark.process

CREATED, CHANGED, DELETED = EventType.CREATED, EventType.CHANGED, EventType.DELETED
CHILDREN = EventType.CHILDREN_CHANGED
SESSION_MS = 3000

numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("faults")) as one:
        yield one


@pytest.fixture
async def proxy(server: ZooKeeperServer) -> AsyncIterator[ZkProxy]:
    proxy = ZkProxy()
    await proxy.start(server.port)
    yield proxy
    await proxy.close()


@pytest.fixture
def chroot() -> str:
    return f"/faults/{next(numbers)}"


@pytest.fixture
async def direct(server: ZooKeeperServer, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    """Another client, not disturbed by anything."""
    store = await ZooKeeperStore.open(server.address + chroot)
    yield store
    await store.close()


@pytest.fixture
async def store(proxy: ZkProxy, direct: ZooKeeperStore, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    store = await ZooKeeperStore.open(
        proxy.address + chroot, session_timeout_ms=SESSION_MS, call_timeout_seconds=8.0, auth=[("digest", b"me:secret")]
    )
    yield store
    await store.close()


async def test_a_create_whose_answer_is_lost_is_made_once_and_succeeds(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    for name, ephemeral in (("/kept", False), ("/mine", True)):
        proxy.swallow = once(answers_of_writes)
        created = await store.create(name, b"token", ephemeral=ephemeral)
        assert (created.path, created.stat.version, created.stat.ephemeral) == (name, 0, ephemeral)
    assert proxy.connections == 3


@pytest.mark.parametrize("count_lost", [1, 1200])
async def test_ephemeral_sequential_creates_whose_answers_are_lost_make_one_record_each(
    store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore, count_lost: int
) -> None:
    await store.create("/p")
    await direct.create("/p/ID-", ephemeral=True, sequential=True)
    proxy.swallow = once(answers_of_writes)
    calls = (store.create("/p/ID-", ephemeral=True, sequential=True) for _ in range(count_lost))
    created = await asyncio.gather(*calls)
    assert sorted(one.path for one in created) == [f"/p/ID-{number:010d}" for number in range(1, count_lost + 1)]
    assert len(await direct.children("/p")) == count_lost + 1


async def test_a_versioned_put_whose_answer_is_lost_succeeds(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a")
    proxy.swallow = once(answers_of_writes)
    assert (await store.put("/a", b"mine", 0)).version == 1
    proxy.swallow = once(answers_of_writes)
    with pytest.raises(BadVersionError):
        await store.put("/a", b"late", 0)
    record = await store.get("/a")
    assert record is not None
    assert (record.value, record.stat.version) == (b"mine", 1)


async def test_a_delete_whose_answer_is_lost_succeeds(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a")
    proxy.swallow = once(answers_of_writes)
    await store.delete("/a", 0)
    assert await store.exists("/a") is None


async def test_a_multi_whose_answer_is_lost_succeeds_once(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a")
    proxy.swallow = once(answers_of_writes)
    stats = await store.multi([CreateOp("/b", b"b"), PutOp("/a", b"1", 0), PutOp("/a", b"2", 1)])
    assert [stat.version for stat in stats if stat is not None] == [0, 1, 2]
    record = await store.get("/a")
    assert record is not None
    assert (record.value, record.stat.version) == (b"2", 2)


async def test_what_cannot_be_told_is_said_so(store: ZooKeeperStore, proxy: ZkProxy, direct: ZooKeeperStore) -> None:
    await store.create("/a")
    proxy.swallow = answers_of_writes
    proxy.refusing = True
    put = asyncio.ensure_future(store.put("/a", b"mine"))
    empty = asyncio.ensure_future(store.create("/n-", sequential=True))
    await until(lambda: not store.is_connected)
    await direct.put("/a", b"theirs")
    proxy.swallow = None
    proxy.refusing = False
    for call in (put, empty):
        with pytest.raises(OutcomeUnknownError):
            await call
    assert await direct.children("/") == ["a", "n-0000000001"]


async def test_one_of_two_equal_creates_wins_though_both_answers_are_lost(
    store: ZooKeeperStore, proxy: ZkProxy
) -> None:
    await store.exists("/")
    proxy.swallow = once(answers_of_writes)
    calls = (store.create("/lock", b"me", ephemeral=True) for _ in range(3))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, NodeExistsError) for result in results] == [False, True, True]


@pytest.mark.parametrize("seed", [1, 2])
async def test_under_a_storm_of_cuts_nothing_is_lost_or_done_twice(
    store: ZooKeeperStore, proxy: ZkProxy, seed: int
) -> None:
    writers = await Writers.begin(store)
    rng = random.Random(seed)
    proxy.swallow = lambda opcode, answer: rng.random() < (0.02 if opcode in WRITES else 0.001)
    writers.start()
    before = proxy.connections
    await until(lambda: proxy.connections >= before + 25 and writers.rounds > 100)
    proxy.swallow = None
    await writers.stop()
    await writers.check()
    assert writers.unknown < writers.rounds


async def test_reads_are_repeated_by_themselves(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a", b"v")
    proxy.swallow = once(lambda opcode, answer: opcode == 4)
    records = await asyncio.gather(*(store.get("/a") for _ in range(50)))
    assert all(record is not None and record.value == b"v" for record in records)


async def test_an_answer_cut_midway_ends_the_link_and_nothing_else(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    await store.create("/a", b"v" * 10_000)
    proxy.cut_midway = True
    proxy.swallow = once(lambda opcode, answer: opcode == 4)
    record = await store.get("/a")
    assert record is not None
    assert len(record.value) == 10_000


async def test_a_cut_is_noticed_at_once_and_the_session_kept(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    session, recorder = store.session_id, SessionRecorder(store)
    await store.create("/e", ephemeral=True)
    start = asyncio.get_running_loop().time()
    proxy.cut()
    assert await recorder.until(SessionEvent.DISCONNECTED) - start < 0.5
    assert await recorder.until(SessionEvent.CONNECTED) - start < 1.5
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
    assert SESSION_MS / 1000 / 3 < lost_after < SESSION_MS / 1000 * 0.85
    await recorder.until(SessionEvent.CONNECTED)
    assert store.session_id == session


async def test_an_answer_that_never_comes_is_not_waited_for_though_the_server_lives(
    store: ZooKeeperStore, proxy: ZkProxy
) -> None:
    proxy.cut_when_swallowing = False
    proxy.swallow = once(answers_of_writes)
    start = asyncio.get_running_loop().time()
    assert (await store.create("/a", b"v")).path == "/a"
    assert asyncio.get_running_loop().time() - start < SESSION_MS / 1000
    proxy.swallow = once(answers_of_writes)
    created = await asyncio.gather(store.create("/b", b"b"), store.create("/c", b"c"))  # the second answer tells
    assert [one.path for one in created] == ["/b", "/c"]


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
    assert await recorder.until(SessionEvent.CONNECTED) - start < 1.5
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
    store = await ZooKeeperStore.open(proxy.address + chroot, session_timeout_ms=SESSION_MS, call_timeout_seconds=1.5)
    try:
        await store.create("/a")
        proxy.silent = True
        start = asyncio.get_running_loop().time()
        sent = [asyncio.ensure_future(store.get("/a")), asyncio.ensure_future(store.put("/a", b""))]
        await until(lambda: not store.is_connected)
        unsent = [asyncio.ensure_future(store.put("/a", b""))]
        await asyncio.wait([*sent, *unsent])
        assert asyncio.get_running_loop().time() - start < 4
        errors = [type(call.exception()) for call in (*sent, *unsent)]
        assert errors == [StoreUnavailableError, OutcomeUnknownError, StoreWriteError]
    finally:
        await store.close()


async def test_a_store_without_a_server_closes_at_once(proxy: ZkProxy, store: ZooKeeperStore) -> None:
    proxy.refusing = True
    proxy.cut()
    await until(lambda: not store.is_connected)
    async with asyncio.timeout(1):
        await store.close()


async def test_no_server_is_said_so(proxy: ZkProxy, caplog: pytest.LogCaptureFixture) -> None:
    proxy.refusing = True
    with pytest.raises(StoreUnavailableError, match=f"^{proxy.address}: no ZooKeeper server answers within 0.3 s$"):
        await ZooKeeperStore.open(proxy.address, call_timeout_seconds=0.3)
    (line,) = (one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert line == f"no session with ZooKeeper, trying on: {proxy.address}", "said once, while it is waited for"
