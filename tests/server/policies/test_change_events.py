"""Topic policies in `__change_events` survive restarts and compaction, and live beside events that others wrote
there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import command
from tests.server.wire_client import Client

EVENTS = "persistent/public/default/__change_events"


class Scene:
    def __init__(self, server: Standalone, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def __call__(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.server.web_url}/admin/v2/{path}"
        async with self.session.request(method, url, json=body) as answer:
            text = await answer.text()
            assert answer.status < 300, text
            return await answer.json() if text else None

    async def compact(self) -> None:
        await self("PUT", f"{EVENTS}/compaction")
        async with asyncio.timeout(60):
            while (await self("GET", f"{EVENTS}/compaction"))["status"] != "SUCCESS":
                continue


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Scene]:
    server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Scene(server, session)
    finally:
        await server.stop()


async def test_the_last_event_of_a_topic_holds_over_restarts_and_compaction(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        for name in ("a", "b", "c"):
            await scene("PUT", f"persistent/public/default/{name}")
            for limit in (1, 2, 3):
                await scene("POST", f"persistent/public/default/{name}/maxProducers", limit)
        await scene("POST", "persistent/public/default/b/maxProducers?isGlobal=true", 9)
        await scene("DELETE", "persistent/public/default/c/policies")
        stats = await scene("GET", f"{EVENTS}/internalStats")
        assert stats["numberOfEntries"] == 11
    async with running(tmp_path) as scene:
        assert await scene("GET", "persistent/public/default/a/maxProducers") == 3
        await scene.compact()
        await scene("POST", "persistent/public/default/a/maxConsumers", 4)
    async with running(tmp_path) as scene:
        assert await scene("GET", "persistent/public/default/a/maxProducers") == 3
        assert await scene("GET", "persistent/public/default/a/maxConsumers") == 4
        assert await scene("GET", "persistent/public/default/b/maxProducers") == 3
        assert await scene("GET", "persistent/public/default/b/maxProducers?isGlobal=true") == 9
        assert await scene("GET", "persistent/public/default/c/maxProducers") is None
        schema = await scene("GET", "schemas/public/default/__change_events/schema")
        assert (schema["version"], schema["type"]) == (0, "AVRO")


async def test_what_is_no_event_does_no_harm(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        await scene("PUT", "persistent/public/default/t")
        await scene("POST", "persistent/public/default/t/maxProducers", 2)
        client = await Client.connect(int(scene.server.broker_url.rpartition(":")[2]))
        topic = "persistent://public/default/__change_events"
        client.say(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1, producer_name="x"))
        assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
        for number, more in enumerate(({}, {"partition_key": "k"}, {"partition_key": "k", "schema_version": b"\x09"})):
            metadata = pb.MessageMetadata(producer_name="x", sequence_id=number, publish_time=1, **more)  # type: ignore[arg-type]
            send = pb.CommandSend(producer_id=1, sequence_id=number)
            client.writer.write(send_frame(send, build_payload(metadata, b"no avro")))
            assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
    async with running(tmp_path) as scene:
        assert await scene("GET", "persistent/public/default/t/maxProducers") == 2


async def test_an_event_by_a_schema_that_contains_itself_does_not_end_the_server(tmp_path: Path) -> None:
    """The Avro library would follow such a schema on the C stack until the process ends."""
    itself = b'{"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}'
    async with running(tmp_path) as scene:
        await scene("PUT", "persistent/public/default/t")
        client = await Client.connect(int(scene.server.broker_url.rpartition(":")[2]))
        schema = pb.Schema(name="s", type=pb.Schema.Avro, schema_data=itself)
        made = {"topic": "persistent://public/default/__change_events", "producer_id": 1, "request_id": 1}
        client.say(command("PRODUCER", "producer", schema=schema, **made))
        assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
        metadata = pb.MessageMetadata(
            producer_name="x", sequence_id=0, publish_time=1, partition_key="k", schema_version=bytes(8)
        )
        payload = build_payload(metadata, b"\x02" * 200_000 + b"\x00")
        client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=0), payload))
        assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
    async with running(tmp_path) as scene:
        assert await scene("GET", "persistent/public/default/t/maxProducers") is None


async def test_many_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as scene:
        await scene("PUT", "persistent/public/default/t")
        paths = ("maxProducers", "maxConsumers", "maxMessageSize", "maxSubscriptionsPerTopic", "compactionThreshold")
        await asyncio.gather(*(scene("POST", f"persistent/public/default/t/{path}", 5) for path in paths))
        for path in paths:
            assert await scene("GET", f"persistent/public/default/t/{path}") == 5
