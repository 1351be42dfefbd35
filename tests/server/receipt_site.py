"""Publishes messages, and after something has happened to the server looks for all that got receipts; also runs a
server in this process."""

import asyncio
import struct
from pathlib import Path

from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import body, build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import command
from tests.server.wire_client import Client

MESSAGES = 15
"""How many messages `publish` sends to a topic and `check` has to find."""


async def subscribed(port: int, topic: str) -> Client:
    client = await Client.connect(port)
    client.say(
        command(
            "SUBSCRIBE",
            "subscribe",
            topic=topic,
            subscription="receipts",
            subType=pb.CommandSubscribe.Exclusive,
            initialPosition=pb.CommandSubscribe.Earliest,
            consumer_id=1,
            request_id=1,
        )
    )
    assert (await client.answer()).type == pb.BaseCommand.SUCCESS
    return client


async def publish(port: int, topic: str) -> None:
    """Publishes messages and returns when all have their receipts. A subscription keeps them from being deleted."""
    client = await subscribed(port, topic)
    client.say(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1, producer_name="p"))
    assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
    for number in range(MESSAGES):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
        payload = build_payload(metadata, b"%s %d" % (topic.encode(), number))
        client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=number), payload))
    for _ in range(MESSAGES):
        assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
    await left(client)


async def check(port: int, topic: str) -> None:
    """Checks that every acknowledged message comes, in order."""
    client = await subscribed(port, topic)
    client.say(command("FLOW", "flow", consumer_id=1, messagePermits=1000))
    async with asyncio.timeout(20):
        for number in range(MESSAGES):
            total, size = struct.unpack(">II", await client.reader.readexactly(8))
            rest = await client.reader.readexactly(total - 4)
            assert body(rest[size:]) == b"%s %d" % (topic.encode(), number)
    await left(client)


async def left(client: Client) -> None:
    """Returns when the server has closed the client's consumer as well."""
    client.say(command("CLOSE_CONSUMER", "close_consumer", consumer_id=1, request_id=2))
    while (await client.answer()).type != pb.BaseCommand.SUCCESS:
        pass
    client.writer.close()


class Site:
    """A server in this process on a data folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0, overrides=settings))

    async def __aenter__(self) -> "Site":
        try:
            await self.server.start()
        except BaseException:
            await self.server.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    @property
    def port(self) -> int:
        return int(self.server.broker_url.rpartition(":")[2])

    async def publish(self, topic: str) -> None:
        await publish(self.port, topic)

    async def check(self, topic: str) -> None:
        await check(self.port, topic)


def content_of(folder: Path) -> dict[str, bytes | None]:
    """Returns every file with its bytes and every folder. Lock files are left out, because they hold a process id."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name not in ("LOCK", "magnetar.lock")
    }
