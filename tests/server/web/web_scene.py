"""A server in this process whose HTTP port is called."""

import asyncio
import json
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

SECONDS_MAX = 60

TOPIC = "persistent://public/default/t1"


class Web:
    def __init__(self, server: Standalone, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Returns the status, the content type and the body of the answer."""
        async with self.session.request(method, self.server.web_url + path, allow_redirects=False) as response:
            return response.status, response.headers.get("Content-Type", ""), await response.text()

    async def call(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        """Sends this body unchanged, labelled as JSON like every body of Java's client. Returns the status and the body
        of the answer."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        async with self.session.request(method, self.server.web_url + path, data=body, headers=headers) as response:
            return response.status, await response.text()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns a bare connection to the web port."""
        return await asyncio.open_connection("127.0.0.1", int(self.server.web_url.rpartition(":")[2]))

    async def said(self, *parts: bytes) -> bytes:
        """Sends the parts one after the other, and returns all that the web port answers until it closes the
        connection."""
        reader, writer = await self.connect()
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(reader.read(), SECONDS_MAX)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def head(self, *parts: bytes) -> bytes:
        """Sends the parts one after the other, and returns the head of the first answer. Other than `said`, it does not
        wait until the web port closes the connection, which a slow machine may do before all is sent and read."""
        reader, writer = await self.connect()
        try:
            writer.write(b"".join(parts))
            return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS_MAX)
        finally:
            writer.close()

    async def json(self, path: str) -> Any:
        status, _, body = await self.get(path)
        assert status == 200, body
        return json.loads(body)

    async def publish(self, count: int, topic: str = TOPIC) -> Client:
        client = await Client.connect(int(self.server.broker_url.rpartition(":")[2]))
        client.say(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1, producer_name="p"))
        await client.answer()
        payload = build_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
        for sequence_id in range(count):
            client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=sequence_id), payload))
        for _ in range(count):
            assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
        return client


@asynccontextmanager
async def running(folder: Path, **settings: str) -> AsyncIterator[Web]:
    """`settings` are keys of broker.conf."""
    server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0, overrides=settings))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Web(server, session)
    finally:
        await server.stop()
