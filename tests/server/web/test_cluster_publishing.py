"""Messages over HTTP go to the broker that owns the topic."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_proto.names import TopicName
from tests.server.web.cluster_scene import NAMESPACE, Seat, cluster

RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
MESSAGE = json.dumps({"valueSchema": '{"type":"STRING","schema":"","properties":{}}', "messages": [{"payload": "x"}]})


@pytest.fixture
async def seats(tmp_path: Path) -> AsyncIterator[list[Seat]]:
    """Two brokers; the second one owns all bundles."""
    async with cluster(tmp_path) as made:
        await made[1].own(*RANGES)
        yield made


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
