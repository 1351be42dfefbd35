"""A client that speaks bare commands over a real socket."""

import asyncio
import struct

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import body, build_payload
from pulsar_proto.wire.commands import parse_command, send_frame, simple_frame
from tests.server.fakes import command


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, **credentials: object) -> "Client":
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        client.say(command("CONNECT", "connect", client_version="test", protocol_version=20, **credentials))
        assert (await client.answer()).type == pb.BaseCommand.CONNECTED
        return client

    def say(self, made: pb.BaseCommand) -> None:
        self.writer.write(simple_frame(made))

    async def answer(self) -> pb.BaseCommand:
        total, size = struct.unpack(">II", await self.reader.readexactly(8))
        rest = await self.reader.readexactly(total - 4)
        return parse_command(rest[:size])

    async def at_end(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


def send(sequence_id: int, text: bytes = b"", producer_id: int = 1) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1 + sequence_id)
    payload = build_payload(metadata, text or b"m%d" % sequence_id)
    return send_frame(pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id), payload)


async def message(client: Client) -> tuple[pb.CommandMessage, bytes]:
    """Returns the next MESSAGE: its command and its body."""
    total, size = struct.unpack(">II", await client.reader.readexactly(8))
    rest = await client.reader.readexactly(total - 4)
    made = pb.BaseCommand.FromString(rest[:size])
    assert made.type == pb.BaseCommand.MESSAGE, made
    return made.message, body(rest[size:])


def flow(permits: int) -> pb.BaseCommand:
    return command("FLOW", "flow", consumer_id=1, messagePermits=permits)
