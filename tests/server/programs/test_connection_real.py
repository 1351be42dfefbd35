"""A client's conversation with a whole server: real topics, real storage, real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from compat_tests.harness import free_port
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.wire_client import Client, flow, message, send

TOPIC = "persistent://public/default/t"
Type = pb.BaseCommand


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[int]:
    """Runs a server and yields the broker's port."""
    server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0))
    await server.start()
    try:
        async with asyncio.timeout(60):
            yield int(server.broker_url.rpartition(":")[2])
    finally:
        await server.stop()


def subscribe(consumer_id: int = 1, **values: Any) -> pb.BaseCommand:
    values = {"subscription": "s", "subType": pb.CommandSubscribe.Exclusive, "initialPosition": 1, **values}
    return command("SUBSCRIBE", "subscribe", topic=TOPIC, consumer_id=consumer_id, request_id=50, **values)


async def producing(port: int, producer_id: int = 1) -> Client:
    client = await Client.connect(port)
    client.say(command("PRODUCER", "producer", topic=TOPIC, producer_id=producer_id, request_id=1))
    assert (await client.answer()).type == Type.PRODUCER_SUCCESS
    return client


async def subscribed(port: int, **values: Any) -> Client:
    client = await Client.connect(port)
    client.say(subscribe(**values))
    assert (await client.answer()).type == Type.SUCCESS
    return client


async def test_the_bind_address_by_which_a_client_comes_in_decides_where_it_is_sent(tmp_path: Path) -> None:
    """A server of two networks: each port answers with the address of its own network."""
    own, inside, outside = free_port(), free_port(), free_port()
    settings = {
        "advertisedListeners": "inside:pulsar://broker.internal:6650,outside:pulsar://example.org:30650",
        "bindAddresses": f"inside:pulsar://127.0.0.1:{inside},outside:pulsar://127.0.0.1:{outside}",
    }
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=own, web_port=0, overrides=settings))
    await server.start()
    try:
        sent_to = {}
        for port in (own, inside, outside):
            client = await Client.connect(port)
            client.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1))
            sent_to[port] = (await client.answer()).lookupTopicResponse.brokerServiceUrl
            client.writer.close()
    finally:
        await server.stop()
    internal, external = "pulsar://broker.internal:6650", "pulsar://example.org:30650"
    assert sent_to == {own: internal, inside: internal, outside: external}


async def test_what_is_published_comes_in_order_and_stays_acknowledged_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as port:
        producer, consumer = await producing(port), await subscribed(port)
        consumer.say(flow(1000))
        producer.writer.write(b"".join(send(index) for index in range(500)))
        receipts = [(await producer.answer()).send_receipt for _ in range(500)]
        assert [receipt.sequence_id for receipt in receipts] == list(range(500))
        received = [await message(consumer) for _ in range(500)]
        assert [text for _, text in received] == [b"m%d" % index for index in range(500)]
        assert [each.message_id.entryId for each, _ in received] == [each.message_id.entryId for each in receipts]
        acked = [received[index][0].message_id for index in (0, 1, 2, 400)]
        consumer.say(command("ACK", "ack", consumer_id=1, ack_type=0, message_id=acked, request_id=7))
        assert (await consumer.answer()).ackResponse.request_id == 7
    async with running(tmp_path) as port:
        consumer = await subscribed(port)
        consumer.say(flow(1000))
        again = [await message(consumer) for _ in range(496)]
        assert [text for _, text in again] == [b"m%d" % index for index in range(500) if index not in (0, 1, 2, 400)]


async def test_a_consumer_asks_seeks_and_leaves(tmp_path: Path) -> None:
    async with running(tmp_path) as port:
        producer, consumer = await producing(port), await subscribed(port)
        producer.writer.write(b"".join(send(index) for index in range(10)))
        receipts = [(await producer.answer()).send_receipt for _ in range(10)]
        consumer.say(command("GET_LAST_MESSAGE_ID", "getLastMessageId", consumer_id=1, request_id=3))
        last = (await consumer.answer()).getLastMessageIdResponse
        assert last.last_message_id.entryId == receipts[-1].message_id.entryId
        assert (last.last_message_id.partition, last.last_message_id.batch_index) == (-1, -1)
        consumer.say(flow(4))
        for _ in range(4):
            await message(consumer)
        consumer.say(command("CONSUMER_STATS", "consumerStats", consumer_id=1, request_id=4))
        stats = (await consumer.answer()).consumerStatsResponse
        assert (stats.request_id, stats.type, stats.msgBacklog, stats.availablePermits) == (4, "Exclusive", 10, 0)
        consumer.say(command("SEEK", "seek", consumer_id=1, request_id=5, message_id=receipts[7].message_id))
        assert (await consumer.answer()).close_consumer.consumer_id == 1
        assert (await consumer.answer()).success.request_id == 5
        consumer.say(subscribe())
        assert (await consumer.answer()).type == Type.SUCCESS
        consumer.say(flow(10))
        assert [(await message(consumer))[1] for _ in range(3)] == [b"m7", b"m8", b"m9"]
        consumer.say(command("UNSUBSCRIBE", "unsubscribe", consumer_id=1, request_id=6))
        assert (await consumer.answer()).success.request_id == 6
        consumer.say(command("UNSUBSCRIBE", "unsubscribe", consumer_id=1, request_id=7))
        assert (await consumer.answer()).error.error == pb.MetadataError


async def test_a_taken_name_and_a_taken_subscription_are_freed_when_their_owner_goes(tmp_path: Path) -> None:
    async with running(tmp_path) as port:
        named = command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=1, producer_name="mine")
        first, second = await Client.connect(port), await Client.connect(port)
        first.say(named)
        first.say(subscribe())
        assert (await first.answer()).type == Type.PRODUCER_SUCCESS
        assert (await first.answer()).type == Type.SUCCESS
        second.say(named)
        second.say(subscribe())
        assert (await first.answer()).type == Type.PING
        first.say(command("PONG", "pong"))
        errors = {(await second.answer()).error.error for _ in range(2)}
        assert errors == {pb.ProducerBusy, pb.ConsumerBusy}
        first.writer.transport.abort()
        for made in (named, subscribe()):
            second.say(made)
            assert (await second.answer()).type in (Type.PRODUCER_SUCCESS, Type.SUCCESS)


async def test_a_connection_that_breaks_the_rules_disturbs_no_other(tmp_path: Path) -> None:
    async with running(tmp_path) as port:
        producer = await producing(port)
        for index, bad in enumerate([b"\xff" * 100, send(0, producer_id=9), b"GET / HTTP/1.1\r\n\r\n"]):
            rude = await producing(port)
            rude.writer.write(bad)
            assert await rude.at_end()
            producer.writer.write(send(index))
            assert (await producer.answer()).send_receipt.sequence_id == index


async def test_a_slow_reader_gets_everything_and_holds_up_nobody(tmp_path: Path) -> None:
    """The 50 MB are far more than the high-water mark and the socket's buffers."""
    async with running(tmp_path) as port:
        producer = await producing(port)
        slow = await subscribed(port, subscription="slow")
        quick = await subscribed(port, subscription="quick")
        slow.say(flow(1000))
        quick.say(flow(1000))
        text = bytes(1_000_000)
        for index in range(50):
            producer.writer.write(send(index, text))
            await producer.writer.drain()
            assert (await producer.answer()).send_receipt.sequence_id == index
            assert (await message(quick))[1] == text
        for _ in range(50):
            assert (await message(slow))[1] == text
