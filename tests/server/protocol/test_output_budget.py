"""The bound on all clients' output: clients that do not read are cut off, the longest idle first, and others stay."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.process.byte_budget import SHARES
from magnetar.server.programs import broker_parts as app
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.protocol.client_traffic import ClientTraffic
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command
from tests.server.wire_client import Client, flow, message, send

MIB = 1 << 20
TOPIC = "persistent://public/default/t"


async def consumer(port: int, name: str, permits: int) -> Client:
    client = await Client.connect(port)
    client.say(
        command(
            "SUBSCRIBE",
            "subscribe",
            topic=TOPIC,
            subscription=name,
            subType=pb.CommandSubscribe.Shared,
            initialPosition=pb.CommandSubscribe.Earliest,
            consumer_id=1,
            request_id=1,
        )
    )
    assert (await client.answer()).type == pb.BaseCommand.SUCCESS
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.say(flow(permits))
    return client


@pytest.mark.slow
async def test_two_hundred_clients_that_do_not_read_are_bounded_and_one_that_reads_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_traffic: list[ClientTraffic] = []

    def kept(*values: Any, **options: Any) -> ClientTraffic:
        all_traffic.append(ClientTraffic(*values, **options))
        return all_traffic[-1]

    monkeypatch.setattr(app, "ClientTraffic", kept)
    budget, messages, size = 32 * MIB, 24, 512 << 10
    options = StandaloneOptions(
        tmp_path, broker_port=0, web_port=0, overrides={"maxMessageDispatchBufferSizeInMB": str(budget // MIB)}
    )
    server = Standalone(options)
    await server.start()
    try:
        async with asyncio.timeout(60):
            port = int(server.broker_url.rpartition(":")[2])
            producer = await Client.connect(port)
            producer.say(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=1))
            await producer.answer()
            for number in range(messages):
                producer.writer.write(send(number, b"%d" % number + bytes(size)))
                assert (await producer.answer()).type == pb.BaseCommand.SEND_RECEIPT
            (traffic,) = all_traffic
            largest = 0
            silent = []
            for number in range(200):
                silent.append(await consumer(port, f"silent {number}", messages))
                largest = max(largest, traffic.output_budget.held_bytes())
            reader = await consumer(port, "reader", messages)
            reader.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for number in range(messages):
                assert (await message(reader))[1].startswith(b"%d\0" % number)
                largest = max(largest, traffic.output_budget.held_bytes())
            assert largest <= budget * (SHARES + 1) // SHARES + 16 * MIB, "and what one turn of the loop adds"
            assert reader.writer.get_extra_info("peername")
            assert len(traffic.connections) < 100
            for each in silent:
                each.writer.transport.abort()
    finally:
        await server.stop()
