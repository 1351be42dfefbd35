"""Messages that consumers and readers of WebSockets get: how they are published, opened and heard."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress
from pulsar_proto.records.payload import build_batch, build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import command
from tests.server.web.web_scene import SECONDS_MAX, Web, running
from tests.server.wire_client import Client

TOPIC = "persistent/public/default/ws"

Metadata = pb.MessageMetadata


class Receiver:
    """A client's WebSocket of a consumer or reader."""

    def __init__(self, inner: aiohttp.ClientWebSocketResponse) -> None:
        self.inner = inner

    async def say(self, value: object) -> None:
        """Sends a value as JSON; a text as it is."""
        await self.inner.send_str(value if isinstance(value, str) else orjson.dumps(value).decode())

    async def heard(self) -> Any:
        """The value of the next text."""
        return orjson.loads(await self.inner.receive_str(timeout=SECONDS_MAX))

    async def ask(self, value: object) -> Any:
        await self.say(value)
        return await self.heard()

    async def values(self, count: int, *, acks: bool = False) -> list[bytes]:
        """The payloads of the next messages."""
        found = []
        for _ in range(count):
            message = await self.heard()
            found.append(b64decode(message["payload"]))
            if acks:
                await self.ack(message)
        return found

    async def ack(self, message: Any) -> None:
        await self.say({"messageId": message["messageId"]})

    async def nack(self, message: Any) -> None:
        await self.say({"type": "negativeAcknowledge", "messageId": message["messageId"]})

    async def gets_nothing_now(self) -> None:
        """Fails if a message comes before the answer to a question that is asked now."""
        await self.say({"type": "isEndOfTopic"})
        assert await self.heard() == {"endOfTopic": False}

    async def end(self) -> tuple[int | None, str]:
        """Code and reason with which the server closes the socket."""
        while (message := await self.inner.receive(timeout=SECONDS_MAX)).type is aiohttp.WSMsgType.TEXT:
            pass
        assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED), message
        return self.inner.close_code, str(message.extra or "")


class Receiving:
    """One server whose sockets receive."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.publisher: Client | None = None

    @asynccontextmanager
    async def open(self, path: str) -> AsyncIterator[Receiver]:
        """`path` follows /ws/."""
        url = f"{self.web.server.web_url}/ws/{path}"
        async with self.web.session.ws_connect(url, max_msg_size=1 << 26) as inner:
            yield Receiver(inner)

    async def refused(self, path: str) -> tuple[int, str]:
        asks = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        asks |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        async with self.web.session.get(f"{self.web.server.web_url}/ws/{path}", headers=asks) as answer:
            assert answer.status != 101
            return answer.status, (await answer.json())["reason"]

    async def call(self, method: str, path: str, body: str | None = None) -> None:
        status, text = await self.web.call(method, path, body)
        assert status < 300, text

    async def publish(self, values: Iterable[bytes], topic: str = TOPIC, **metadata: Any) -> None:
        """Publishes single messages."""
        await self.store([build_payload(_metadata(**metadata), value) for value in values], topic)

    async def publish_batch(
        self, values: Iterable[bytes], topic: str = TOPIC, compression: pb.CompressionType.ValueType = pb.NONE
    ) -> None:
        """Publishes a batch."""
        messages = [(pb.SingleMessageMetadata(partition_key=f"key {value[:10]!r}"), value) for value in values]
        plain = build_batch(messages)
        metadata = _metadata(num_messages_in_batch=len(messages), compression=compression, uncompressed_size=len(plain))
        await self.store([build_payload(metadata, compress(compression, plain))], topic)

    async def store(self, payloads: list[bytes], topic: str = TOPIC) -> None:
        """Publishes payloads as they are."""
        client = await Client.connect(int(self.web.server.broker_url.rpartition(":")[2]))
        client.say(command("PRODUCER", "producer", topic=topic.replace("/", "://", 1), producer_id=1, request_id=1))
        assert (await client.answer()).type == pb.BaseCommand.PRODUCER_SUCCESS
        for sequence_id, payload in enumerate(payloads):
            client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=sequence_id), payload))
        for _ in payloads:
            assert (await client.answer()).type == pb.BaseCommand.SEND_RECEIPT
        client.writer.close()

    async def subscription(self, name: str, topic: str = TOPIC) -> Any:
        """What the stats tell of a subscription, or None."""
        return (await self.web.json(f"/admin/v2/{topic}/stats"))["subscriptions"].get(name)

    async def until(self, condition: Callable[[Any], bool], name: str = "sub", topic: str = TOPIC) -> None:
        """Asks for the stats of a subscription until the condition holds."""
        async with asyncio.timeout(SECONDS_MAX):
            while not condition(await self.subscription(name, topic)):
                pass

    async def until_backlog(self, entries: int, topic: str = TOPIC) -> None:
        await self.until(lambda stats: stats["msgBacklog"] == entries, topic=topic)


def _metadata(**fields: Any) -> Metadata:
    properties = [pb.KeyValue(key=key, value=value) for key, value in fields.pop("properties", {}).items()]
    return Metadata(producer_name="p", sequence_id=0, **{"publish_time": 1, **fields}, properties=properties)


@asynccontextmanager
async def receiving(folder: Path, **settings: str) -> AsyncIterator[Receiving]:
    """`settings` are keys of broker.conf."""
    async with running(folder, **settings) as web:
        yield Receiving(web)


def as_id(ledger_id: int, entry_id: int) -> str:
    """The text of a message id."""
    message_id = pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id)
    return b64encode(message_id.SerializeToString()).decode()
