"""Messages over HTTP and sockets of clients go to the broker that owns the topic."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from pulsar_proto.names import TopicName
from tests.server.web.cluster_scene import NAMESPACE, Answer, Seat, cluster

RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
MESSAGE = json.dumps({"valueSchema": '{"type":"STRING","schema":"","properties":{}}', "messages": [{"payload": "x"}]})
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture
async def seats(tmp_path: Path) -> AsyncIterator[list[Seat]]:
    """Two brokers; the second one owns all bundles."""
    async with cluster(tmp_path) as made:
        await made[1].own(*RANGES)
        yield made


async def asked_for_socket(seat: Seat, path: str) -> Answer:
    async with seat.session.get(f"{seat.url}{path}", headers=UPGRADE, allow_redirects=False) as answer:
        return Answer(answer.status, answer.headers.get("Location"), await answer.text())


class TestPublishing:
    async def test_a_topic_takes_messages_at_its_owner(self, seats: list[Seat]) -> None:
        first, second = seats
        await second.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/t")
        path = f"/topics/persistent/{NAMESPACE}/t"
        answer = await first.call("POST", path, MESSAGE)
        assert (answer.status, answer.location) == (307, f"{second.url}{path}?authoritative=true")
        answer = await first.call("POST", path, MESSAGE, follow=True)
        assert answer.status == 200, answer
        assert answer.json["messagePublishResults"][0]["errorCode"] == 0, answer

    async def test_a_partitioned_topic_takes_them_in_the_partitions_of_the_asked_broker(
        self, seats: list[Seat]
    ) -> None:
        first, second = seats
        await second.broker.moves.unload_all()
        await first.own(*RANGES[:2])
        await second.own(*RANGES[2:])
        answer = await first.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/p/partitions", "6")
        assert answer.status == 204
        for seat in seats:
            many = json.dumps({**json.loads(MESSAGE), "messages": [{"payload": "x"}] * 12})
            answer = await seat.call("POST", f"/topics/persistent/{NAMESPACE}/p", many)
            partitions = {each["messageId"].rpartition(":")[2] for each in answer.json["messagePublishResults"]}
            names = [TopicName.parse(f"persistent://{NAMESPACE}/p-partition-{each}") for each in partitions]
            assert all(map(seat.broker.ownership.owns, names))
            assert 0 < len(partitions) < 6

    async def test_a_partition_takes_them_at_its_owner(self, seats: list[Seat]) -> None:
        first, second = seats
        await first.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/p/partitions", "2")
        for path in (f"/topics/persistent/{NAMESPACE}/p/partitions/1", f"/topics/persistent/{NAMESPACE}/p"):
            assert (await first.call("POST", path, MESSAGE)).location == f"{second.url}{path}?authoritative=true"


class TestSockets:
    @pytest.mark.parametrize("path", ["producer/{}", "consumer/{}/s", "reader/{}"])
    async def test_a_socket_is_opened_at_the_owner(self, seats: list[Seat], path: str) -> None:
        first, second = seats
        target = f"/ws/v2/{path.format(f'persistent/{NAMESPACE}/t')}?x=1"
        answer = await asked_for_socket(first, target)
        assert (answer.status, answer.location) == (307, f"ws://{urlsplit(second.url).netloc}{target}")
        assert answer.location is not None
        async with second.session.ws_connect(answer.location) as socket:
            assert not socket.closed

    async def test_what_nobody_owned_is_opened_where_it_goes(self, seats: list[Seat]) -> None:
        first, second = seats
        await second.broker.moves.unload_all()
        async with first.session.ws_connect(f"{first.url}/ws/v2/producer/persistent/{NAMESPACE}/t") as socket:
            await socket.send_str('{"payload":"eA=="}')
            said: Any = json.loads(await socket.receive_str())
            assert said["result"] == "ok", said
        assert first.broker.service.loaded(TopicName.parse(f"persistent://{NAMESPACE}/t")) is not None

    async def test_topics_of_several_owners_are_too_much_for_one_socket(self, seats: list[Seat]) -> None:
        first, second = seats
        await second.broker.moves.unload_all()
        await first.own(*RANGES[:2])
        await second.own(*RANGES[2:])
        await first.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/p/partitions", "6")
        answer = await asked_for_socket(first, f"/ws/v2/reader/persistent/{NAMESPACE}/p")
        assert answer.status == 503
        assert "are owned by several brokers" in answer.json["reason"]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await first.session.ws_connect(f"{first.url}/ws/v2/reader/persistent/{NAMESPACE}/p")
