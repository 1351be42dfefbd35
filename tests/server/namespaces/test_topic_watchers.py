"""Clients with a topic pattern are told which topics come and go, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.namespaces.topic_list_rules import hash_of
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.wire_client import Client

ORDERS = "persistent://public/default/orders"
PATTERN = "persistent://public/default/orders.*"


class Scene:
    def __init__(self, server: Standalone, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def ask(self, method: str, path: str, body: Any = None) -> None:
        url = f"{self.server.web_url}/admin/v2/{path}"
        async with self.session.request(method, url, json=body) as answer:
            assert answer.status == 204, await answer.text()

    async def client(self) -> Client:
        return await Client.connect(int(self.server.broker_url.rpartition(":")[2]))

    async def watch(self, client: Client, pattern: str = PATTERN, **more: Any) -> pb.BaseCommand:
        fields = {"request_id": 1, "watcher_id": 7, "namespace": "public/default", "topics_pattern": pattern, **more}
        client.say(command("WATCH_TOPIC_LIST", "watchTopicList", **fields))
        return await client.answer()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            async with asyncio.timeout(60):
                yield Scene(server, session)
    finally:
        await server.stop()


async def test_a_watcher_is_told_of_what_comes_and_goes(scene: Scene) -> None:
    await scene.ask("PUT", "persistent/public/default/orders-1")
    client = await scene.client()
    success = (await scene.watch(client)).watchTopicListSuccess
    assert (success.request_id, success.watcher_id) == (1, 7)
    assert list(success.topic) == [f"{ORDERS}-1"]
    assert success.topics_hash == hash_of([f"{ORDERS}-1"])

    await scene.ask("PUT", "persistent/public/default/invoices")
    await scene.ask("PUT", "persistent/public/default/orders-2/partitions", 2)
    told: set[str] = set()
    while len(told) < 2:
        update = (await client.answer()).watchTopicUpdate
        assert update.watcher_id == 7
        assert not update.deleted_topics
        told |= set(update.new_topics)
    assert told == {f"{ORDERS}-2-partition-0", f"{ORDERS}-2-partition-1"}
    assert update.topics_hash == hash_of([f"{ORDERS}-1", *told])

    await scene.ask("DELETE", "persistent/public/default/orders-1")
    update = (await client.answer()).watchTopicUpdate
    assert (list(update.new_topics), list(update.deleted_topics)) == ([], [f"{ORDERS}-1"])
    assert update.topics_hash == hash_of(sorted(told))


async def test_a_change_is_told_without_listing_the_namespace_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.ask("PUT", "persistent/public/default/orders-5")
    client = await scene.client()
    await scene.watch(client)

    async def listed(catalog: TopicCatalog, namespace: str) -> list[str]:
        raise AssertionError("the namespace was listed")

    monkeypatch.setattr(TopicCatalog, "topics_of", listed)
    for name, known in (("orders-7", ["orders-5", "orders-7"]), ("orders-6", ["orders-5", "orders-6", "orders-7"])):
        await scene.ask("PUT", f"persistent/public/default/{name}")
        update = (await client.answer()).watchTopicUpdate
        assert list(update.new_topics) == [f"persistent://public/default/{name}"]
        assert update.topics_hash == hash_of([f"persistent://public/default/{each}" for each in known])
    await scene.ask("PUT", "persistent/public/default/orders-5/subscription/s")  # a record below the topic's record
    await scene.ask("DELETE", "persistent/public/default/orders-5?force=true")
    update = (await client.answer()).watchTopicUpdate
    assert (list(update.new_topics), list(update.deleted_topics)) == ([], [f"{ORDERS}-5"])
    assert update.topics_hash == hash_of([f"{ORDERS}-6", f"{ORDERS}-7"])


async def test_a_list_that_no_frame_can_hold_is_refused(tmp_path: Path) -> None:
    options = StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0, overrides={"maxMessageSize": "1000"})
    server = Standalone(options)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(60):
            scene = Scene(server, session)
            await scene.ask("PUT", "persistent/public/default/orders/partitions", 400)
            await scene.ask("PUT", "persistent/public/default/invoices")
            client = await scene.client()
            ask: dict[str, Any] = {"request_id": 3, "namespace": "public/default"}
            client.say(command("GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace", **ask))
            refused = (await client.answer()).error
            assert (refused.request_id, refused.error) == (3, pb.NotAllowedError)
            assert refused.message.startswith("The names of 401 topics need ")
            refused = (await scene.watch(client)).error
            assert (refused.request_id, refused.error) == (1, pb.NotAllowedError)
            ask["topics_pattern"] = "persistent://public/default/inv.*"
            success = (await scene.watch(client, ask["topics_pattern"])).watchTopicListSuccess
            assert list(success.topic) == ["persistent://public/default/invoices"], "the watcher's id is free again"
            client.say(command("GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace", **ask))
            answer = (await client.answer()).getTopicsOfNamespaceResponse
            assert list(answer.topics) == ["persistent://public/default/invoices"]
    finally:
        await server.stop()


async def test_what_the_client_knows_already_is_not_repeated(scene: Scene) -> None:
    await scene.ask("PUT", "persistent/public/default/orders-1")
    client = await scene.client()
    success = (await scene.watch(client, topics_hash=hash_of([f"{ORDERS}-1"]))).watchTopicListSuccess
    assert (list(success.topic), success.topics_hash) == ([], hash_of([f"{ORDERS}-1"]))
    again = (await scene.watch(client, request_id=2)).watchTopicListSuccess
    assert (again.request_id, list(again.topic)) == (2, [f"{ORDERS}-1"])


async def test_a_closed_watcher_hears_nothing_more(scene: Scene) -> None:
    client, other = await scene.client(), await scene.client()
    await scene.watch(client)
    await scene.watch(other)
    client.say(command("WATCH_TOPIC_LIST_CLOSE", "watchTopicListClose", request_id=2, watcher_id=7))
    assert (await client.answer()).success.request_id == 2
    await scene.ask("PUT", "persistent/public/default/orders-1")
    assert list((await other.answer()).watchTopicUpdate.new_topics) == [f"{ORDERS}-1"]
    client.say(command("WATCH_TOPIC_LIST_CLOSE", "watchTopicListClose", request_id=3, watcher_id=9))
    assert (await client.answer()).success.request_id == 3, "nothing came in between"


REFUSED = (
    ("x" * 51, "public/default", pb.NotAllowedError),
    ("(", "public/default", pb.InvalidTopicName),
    (r"\p{L}+", "public/default", pb.NotAllowedError),
    ("a.*", "public/nope", pb.TopicNotFound),
)


async def test_what_cannot_be_watched_is_refused(scene: Scene) -> None:
    client = await scene.client()
    for pattern, namespace, code in REFUSED:
        refused = (await scene.watch(client, pattern, namespace=namespace)).error
        assert (refused.request_id, refused.error) == (1, code), pattern
    assert list((await scene.watch(client)).watchTopicListSuccess.topic) == [], "the watcher's id is free again"


async def test_the_scheme_of_a_pattern_does_not_count_for_its_length(scene: Scene) -> None:
    client = await scene.client()
    longest = f"public/default/{'a' * 33}.*"
    assert len(longest) == 50
    success = (await scene.watch(client, f"persistent://{longest}")).watchTopicListSuccess
    assert success.watcher_id == 7
    refused = (await scene.watch(client, f"persistent://{longest}b", watcher_id=8)).error
    assert refused.error == pb.NotAllowedError
