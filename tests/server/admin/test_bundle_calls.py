"""Calls on bundles, calls with lists that only the Java client makes, and the call that ends the server."""

import asyncio
import json
from pathlib import Path

import aiohttp

from magnetar.server.namespaces.bundle_ranges import hash_of
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from tests.server.web.web_scene import TOPIC, Web, running

PATH = "/admin/v2/" + TOPIC.replace("://", "/")
NAMESPACES = "/admin/v2/namespaces"
WHOLE = "0x00000000_0xffffffff"


async def one_bundle(web: Web) -> str:
    """Makes a namespace with one bundle and three topics, of which two are partitions. Returns its path."""
    await web.call("PUT", f"{NAMESPACES}/public/one", '{"bundles": {"numBundles": 1}}')
    await web.call("PUT", "/admin/v2/persistent/public/one/plain")
    await web.call("PUT", "/admin/v2/persistent/public/one/parted/partitions", "2")
    return f"{NAMESPACES}/public/one/{WHOLE}"


async def test_topics_stand_at_their_hashes(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        bundle = await one_bundle(web)
        name = "persistent://public/one/"
        partitions = [f"{name}parted-partition-{index}" for index in range(2)]
        answer = await web.json(f"{bundle}/topicHashPositions")
        assert (answer["namespace"], answer["bundle"]) == ("public/one", WHOLE)
        assert answer["topicHashPositions"] == {each: hash_of(each) for each in (*partitions, f"{name}plain")}
        some = await web.json(f"{bundle}/topicHashPositions?topics={name}parted&topics={name}nothing")
        assert set(some["topicHashPositions"]) == set(partitions)
        both = await web.json(f"{bundle}/topicHashPositions?topics={partitions[1]}&topics={name}plain")
        assert set(both["topicHashPositions"]) == {partitions[1], f"{name}plain"}
        assert (await web.call("GET", f"{NAMESPACES}/public/one/0x0_0x1/topicHashPositions"))[0] == 412


async def test_a_bundle_with_topics_is_deleted_only_where_force_is_allowed(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        bundle = await one_bundle(web)
        assert (await web.call("DELETE", bundle))[0] == 409
        assert (await web.call("DELETE", f"{bundle}?force=true"))[0] == 405
        assert len(await web.json("/admin/v2/persistent/public/one")) == 3
        await web.call("PUT", f"{NAMESPACES}/public/empty", '{"bundles": {"numBundles": 1}}')
        assert await web.call("DELETE", f"{NAMESPACES}/public/empty/{WHOLE}") == (204, "")


async def test_permissions_on_many_topics_are_granted_and_revoked_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await one_bundle(web)
        await web.publish(1)
        topics = (TOPIC, "persistent://public/one/parted")
        grants = [{"topic": topic, "role": "r", "actions": ["produce"]} for topic in topics]
        assert await web.call("POST", f"{NAMESPACES}/grantPermissionsOnTopics", json.dumps(grants)) == (204, "")
        paths = [f"/admin/v2/{topic.replace('://', '/')}/permissions" for topic in topics]
        assert [await web.json(path) for path in paths] == [{"r": ["produce"]}] * 2
        bad = json.dumps([{"topic": TOPIC, "role": "r", "actions": ["fly"]}])
        assert (await web.call("POST", f"{NAMESPACES}/grantPermissionsOnTopics", bad))[0] == 400
        revoked = json.dumps([{"topic": topic, "role": "r"} for topic in topics])
        assert await web.call("POST", f"{NAMESPACES}/revokePermissionsOnTopics", revoked) == (204, "")
        assert [await web.json(path) for path in paths] == [{}] * 2


async def test_namespaces_of_pulsar_1_are_none(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert await web.json("/admin/namespaces/public/standalone") == []
        assert (await web.call("GET", "/admin/namespaces/nobody/standalone"))[0] == 404


async def test_a_shut_down_is_answered_and_then_asked_for(tmp_path: Path) -> None:
    asked = asyncio.Event()
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0), asked.set)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            path = f"{server.web_url}/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=1&forcedTerminateTopic=true"
            async with session.post(path) as answer:
                assert answer.status == 204
        await asked.wait()
    finally:
        await server.stop()
