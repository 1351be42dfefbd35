"""The client port over real sockets, on asyncio's own loop and on uvloop."""

import asyncio
import socket
import struct
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest
import uvloop

from magnetar.server.protocol import broker_listener as listener_module
from magnetar.server.protocol.broker_listener import BrokerListener
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import command, make_traffic
from tests.server.wire_client import Client
from tests.waiting import until

TOPIC = "persistent://public/default/t"
DEADLINE = 60


def run(loop_factory: Any, work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await work

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(bounded())


LOOPS = pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


@LOOPS
def test_clients_come_speak_and_go(loop: Any) -> None:
    async def scenario() -> None:
        traffic: ClientTraffic = make_traffic()
        listener = BrokerListener(traffic, TABLE)
        port = await listener.start("127.0.0.1", 0)
        first, second = await Client.connect(port), await Client.connect(port)
        first.say(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=7))
        assert (await first.answer()).producer_success.request_id == 7
        payload = build_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), bytes(5_242_880))
        for sequence_id in range(3):
            first.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=sequence_id), payload))
        first.say(command("PING", "ping"))
        assert (await first.answer()).type == pb.BaseCommand.PONG
        producer: Any = next(iter(traffic.connections - {c for c in traffic.connections if not c.producers})).producers[
            1
        ]
        assert producer.sequence_ids == [0, 1, 2]
        assert all(sent == payload for group in producer.groups for _, sent in group)
        first.writer.close()
        second.say(command("PING", "ping"))
        assert (await second.answer()).type == pb.BaseCommand.PONG
        await listener.close()
        assert await second.at_end()
        assert producer.closed == 1
        assert traffic.connections == set()

    run(loop, scenario())


@LOOPS
def test_bad_bytes_end_one_connection_and_no_other(loop: Any) -> None:
    async def scenario() -> None:
        listener = BrokerListener(make_traffic(), TABLE)
        port = await listener.start("127.0.0.1", 0)
        good = await Client.connect(port)
        for bad in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", struct.pack(">II", 2**31, 4)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bad)
            assert await Client(reader, writer).at_end()
        good.say(command("PING", "ping"))
        assert (await good.answer()).type == pb.BaseCommand.PONG
        await listener.close()

    run(loop, scenario())


@LOOPS
def test_reading_stops_and_goes_on(loop: Any) -> None:
    async def scenario() -> None:
        traffic: ClientTraffic = make_traffic()
        listener = BrokerListener(traffic, TABLE)
        client = await Client.connect(await listener.start("127.0.0.1", 0))
        (connection,) = traffic.connections
        connection.throttle_reading("rate")
        client.say(command("PING", "ping"))
        answer = asyncio.ensure_future(client.answer())
        other = await Client.connect(client.writer.get_extra_info("peername")[1])
        other.say(command("PING", "ping"))
        await other.answer()
        assert not answer.done()
        connection.release_reading("rate")
        assert (await answer).type == pb.BaseCommand.PONG
        await listener.close()

    run(loop, scenario())


@LOOPS
def test_a_client_that_does_not_read_does_not_hold_the_stop(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "CLOSE_SECONDS", 0.05)

    async def scenario() -> None:
        traffic: ClientTraffic = make_traffic()
        listener = BrokerListener(traffic, TABLE)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", await listener.start("127.0.0.1", 0)))
        await until(lambda: bool(traffic.connections))
        (connection,) = traffic.connections
        connection.write(bytes(20_000_000))
        await listener.close()
        await traffic.emptied()
        sock.close()

    run(loop, scenario())


async def test_a_bound_socket_is_used_as_it_is_and_the_sweep_runs_only_while_somebody_is_connected() -> None:
    traffic: ClientTraffic = make_traffic(keep_alive_interval_seconds=1)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    listener = BrokerListener(traffic, TABLE)
    port = await listener.start(sock=sock)
    assert port == sock.getsockname()[1]
    assert not listener.is_sweeping
    client = await Client.connect(port)
    assert listener.is_sweeping
    client.writer.close()
    await traffic.emptied()
    listener.sweep()
    assert not listener.is_sweeping
    await listener.close()


async def test_a_sweep_of_many_connections_lets_other_work_run_and_reaches_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "TICKS_AT_ONCE", 2)
    traffic: ClientTraffic = make_traffic()
    listener = BrokerListener(traffic, TABLE)
    port = await listener.start("127.0.0.1", 0)
    clients = [await Client.connect(port) for _ in range(5)]
    await until(lambda: len(traffic.connections) == len(clients))
    ticked: list[str] = []
    for connection in traffic.connections:
        connection.tick = partial(tick_of, connection.remote_address, ticked)  # type: ignore[method-assign]
    listener.sweep()
    assert len(ticked) == 2
    assert not listener.is_sweeping
    await until(lambda: listener.is_sweeping)
    assert sorted(ticked) == sorted(connection.remote_address for connection in traffic.connections)
    await listener.close()


def tick_of(address: str, ticked: list[str], now_s: float) -> None:
    ticked.append(address)


async def test_the_sweep_pings_the_silent_and_survives_a_failure() -> None:
    traffic: ClientTraffic = make_traffic(keep_alive_interval_seconds=1)
    listener = BrokerListener(traffic, TABLE)
    port = await listener.start("127.0.0.1", 0)
    clients = [await Client.connect(port) for _ in range(3)]
    broken = next(iter(traffic.connections))
    broken.tick = None  # type: ignore[assignment,method-assign]
    now = traffic.now()
    traffic.now = lambda: now + 1  # type: ignore[method-assign]
    listener.sweep()
    answers = {asyncio.ensure_future(client.answer()) for client in clients}
    for _ in range(2):
        done, answers = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result().type for task in done} == {pb.BaseCommand.PING}
        if len(answers) == 1:
            break
    assert listener.is_sweeping
    for answer in answers:
        answer.cancel()
    await listener.close()
