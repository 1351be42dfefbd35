"""What a client that has left had at its topics is taken away in portions, and stands in nobody's way meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.process import detaching, turns
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.web.web_scene import Web, running
from tests.server.websocket.websocket_scene import TOPIC as WEBSOCKET_TOPIC
from tests.server.websocket.websocket_scene import sockets
from tests.server.wire_client import Client
from tests.waiting import until

TOPIC = "persistent://public/default/t"
COUNT = detaching.AT_ONCE_MAX + 50


class Attached:
    """A producer or consumer that notes when it is detached. Some cannot be."""

    def __init__(self, number: int, closed: list[int]) -> None:
        self._number = number
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self._number)
        if self._number % 60 == 0:
            raise RuntimeError("a fault of a topic")


async def test_the_first_ones_go_at_once_and_others_run_while_the_rest_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)
    closed: list[int] = []
    detaches = [Attached(number, closed).close for number in range(COUNT)]
    detaching.detach_all(detaches, "/peer", asyncio.ensure_future)
    assert closed == list(range(detaching.AT_ONCE_MAX))
    seen: set[int] = set()

    def is_done() -> bool:
        seen.add(len(closed))
        return len(closed) == COUNT

    await until(is_done)
    assert len(seen) > 10
    assert closed == list(range(COUNT))
    assert caplog.text.count("could not be detached") == 3


async def test_a_name_that_a_lost_connection_still_has_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()

    async def gated(items: Iterable[Any]) -> AsyncIterator[Any]:
        await gate.wait()
        for each in items:
            yield each

    monkeypatch.setattr(detaching, "in_portions", gated)
    async with running(tmp_path) as web:
        port = int(web.server.broker_url.rpartition(":")[2])
        client = await Client.connect(port)
        for number in range(COUNT):
            await produce(client, number)
        client.writer.close()
        other = await Client.connect(port)
        await until(lambda: len(producers_of(web)) == COUNT - detaching.AT_ONCE_MAX)
        await produce(other, COUNT - 1)
        gate.set()
        await until(lambda: len(producers_of(web)) == 1)
        other.writer.close()


async def test_a_socket_leaves_all_of_its_topics(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene:
        topics = scene.web.server.service.topics
        place = f"/admin/v2/{WEBSOCKET_TOPIC}/partitions"
        assert (await scene.web.call("PUT", place, str(COUNT)))[0] == 204
        async with scene.open(f"consumer/{WEBSOCKET_TOPIC}/sub"), scene.open(f"producer/{WEBSOCKET_TOPIC}"):
            assert sum(topic.consumer_count for topic in topics.values()) == COUNT
            assert sum(len(topic.producers) for topic in topics.values()) == COUNT
        await until(lambda: not any(topic.consumer_count or topic.producers for topic in topics.values()))


def producers_of(web: Web) -> list[str]:
    topic = web.server.service.loaded(TopicName.parse(TOPIC))
    assert topic is not None
    return list(topic.producers)


async def produce(client: Client, number: int) -> None:
    client.say(
        command("PRODUCER", "producer", topic=TOPIC, producer_id=number, request_id=1, producer_name=f"name-{number}")
    )
    assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
