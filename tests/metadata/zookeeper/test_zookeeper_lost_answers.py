"""Answers that a real ZooKeeper gave and a proxy swallowed: each call ends as it should, and nothing is done twice."""

import asyncio
import random

import pytest

from magnetar.metadata.errors import BadVersionError, NodeExistsError, OutcomeUnknownError
from magnetar.metadata.store import CreateOp, PutOp
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.zookeeper.zookeeper_load import Writers
from tests.metadata.zookeeper.zookeeper_proxy import WRITES, ZkProxy, answers_of_writes, once
from tests.metadata.zookeeper.zookeeper_scene import SESSION_MS
from tests.waiting import until

pytestmark = pytest.mark.process


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
