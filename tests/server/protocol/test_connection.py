"""The connection's shell: who is admitted, input in any shape, and producers and consumers that the broker closes."""

import asyncio
import logging
import struct
from typing import Any

import pytest

from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import close_producer_frame, parse_command, simple_frame
from tests.server.fakes import FakeService, Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import TOPIC, Clock, payload, producing, send, subscribe
from tests.server.protocol.handler_scene import producer as producer_command


class TestInput:
    async def test_sends_of_one_read_are_one_group_per_producer_in_order(self) -> None:
        peer, first = await producing(make_traffic())
        peer.say(producer_command(2, 2))
        await settle()
        second: Any = peer.connection.producers[2]
        peer.feed(send(1, 0) + send(2, 0) + send(1, 1) + send(1, 2) + send(2, 1))
        assert [len(group) for group in first.groups] == [3]
        assert (first.sequence_ids, second.sequence_ids) == ([0, 1, 2], [0, 1])
        assert first.groups[0][0][1] == payload()

    async def test_another_command_splits_the_group_and_keeps_its_place(self) -> None:
        peer, producer = await producing(make_traffic())
        closing = simple_frame(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=9))
        peer.feed(send(1, 0) + send(1, 1) + closing)
        assert producer.sequence_ids == [0, 1]
        assert producer.closed == 1
        assert (await peer.answer()).success.request_id == 9

    @pytest.mark.parametrize("chunk", [1, 2, 7, 64, 1000])
    async def test_frames_may_come_in_any_pieces(self, chunk: int) -> None:
        peer, producer = await producing(make_traffic())
        stream = b"".join(send(1, sequence_id, b"x" * sequence_id) for sequence_id in range(20))
        peer.feed(stream, chunk)
        assert producer.sequence_ids == list(range(20))

    async def test_a_message_of_the_largest_size_passes(self) -> None:
        peer, producer = await producing(make_traffic())
        peer.feed(send(1, 0, bytes(5_242_880)))
        assert len(producer.groups[0][0][1]) > 5_242_880
        assert not peer.is_closed

    async def test_an_unknown_type_is_ignored(self) -> None:
        peer = Peer(make_traffic()).connect()
        await peer.answers()
        unknown = b"\x08\xe7\x07"  # type 999
        peer.feed(struct.pack(">II", len(unknown) + 4, len(unknown)) + unknown)
        peer.say(command("PING", "ping"))
        assert (await peer.answer()).type == pb.BaseCommand.PONG


class TestMalformed:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP"),
            (b"POST / HTTP/1.1\r\n\r\n", "looks like HTTP"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "looks like TLS"),
            (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "looks like the PROXY protocol"),
            (struct.pack(">II", 5_242_880 + 10_240, 10), "exceeds the limit"),
            (struct.pack(">II", 10, 400) + bytes(6), "cannot hold its command"),
            (struct.pack(">II", 5, 1) + b"\xff", "does not decode"),
            (struct.pack(">II", 6, 2) + b"\x08\x02", "has no field"),
        ],
    )
    async def test_bad_bytes_close_without_an_answer_and_one_line_says_why(
        self, data: bytes, reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        traffic = make_traffic()
        other, producer = await producing(traffic)
        peer = Peer(traffic, ("10.1.2.3", 4711))
        with caplog.at_level(logging.INFO):
            peer.feed(data)
            assert await peer.answers() == []
        assert peer.is_closed
        lines = [record.getMessage() for record in caplog.records if "/10.1.2.3:4711" in record.getMessage()]
        assert len(lines) == 1
        assert reason in lines[0]
        other.feed(send(1, 0))
        assert producer.sequence_ids == [0]
        assert traffic.connections == {other.connection}

    async def test_sound_frames_before_a_bad_one_are_handled(self) -> None:
        peer, producer = await producing(make_traffic())
        peer.feed(send(1, 0) + send(1, 1) + struct.pack(">II", 2**31, 1))
        assert producer.sequence_ids == [0, 1]
        assert peer.is_closed

    async def test_nothing_is_handled_after_the_frame_that_closed(self) -> None:
        peer, producer = await producing(make_traffic())
        second_connect = simple_frame(command("CONNECT", "connect", client_version="x"))
        peer.feed(send(1, 0) + second_connect + send(1, 1))
        assert producer.sequence_ids == [0]
        assert peer.is_closed

    @pytest.mark.parametrize("kind", ["SEND", "PRODUCER", "SUBSCRIBE", "LOOKUP", "FLOW", "ACK"])
    async def test_any_command_before_connect_closes_silently(self, kind: str) -> None:
        peer = Peer(make_traffic())
        fields = {"SEND": "send", "LOOKUP": "lookupTopic"}
        made = command(kind, fields.get(kind, kind.lower()))
        required: dict[str, Any] = {
            "topic": TOPIC,
            "subscription": "s",
            "subType": 0,
            "producer_id": 1,
            "consumer_id": 1,
            "request_id": 1,
            "sequence_id": 1,
            "messagePermits": 1,
            "ack_type": 0,
        }
        body = getattr(made, fields.get(kind, kind.lower()))
        for name, value in required.items():
            if name in body.DESCRIPTOR.fields_by_name:
                setattr(body, name, value)
        peer.say(made)
        assert await peer.answers() == []
        assert peer.is_closed

    async def test_an_error_of_ours_closes_only_that_connection(self, caplog: pytest.LogCaptureFixture) -> None:
        traffic = make_traffic()
        other, _ = await producing(traffic)
        peer, producer = await producing(traffic)
        producer.publish = None  # type: ignore[assignment,method-assign]
        peer.feed(send(1, 0))
        assert peer.is_closed
        assert not other.is_closed
        assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


class TestAdmission:
    @pytest.mark.parametrize("limit", ["broker_max_connections", "broker_max_connections_per_ip"])
    async def test_one_connection_too_many_is_told_and_closed(self, limit: str) -> None:
        limits: dict[str, Any] = {limit: 1}
        traffic = make_traffic(**limits)
        first = Peer(traffic)
        second = Peer(traffic)
        answer = await second.answer()
        assert (answer.error.request_id, answer.error.error) == (NO_REQUEST_ID, pb.NotAllowedError)
        assert second.is_closed
        assert not first.is_closed
        first.transport.lose()
        assert not Peer(traffic).is_closed

    async def test_the_limit_per_address_is_for_each_address(self) -> None:
        traffic = make_traffic(broker_max_connections_per_ip=1)
        Peer(traffic, ("10.0.0.1", 1))
        assert not Peer(traffic, ("10.0.0.2", 1)).is_closed


class TestClosedByTheBroker:
    async def test_the_client_is_told_and_late_sends_are_dropped(self) -> None:
        clock = Clock()
        peer, producer = await producing(make_traffic(clock=clock))
        peer.connection.close_producer(1)
        await settle()
        assert bytes(peer.transport.taken).endswith(close_producer_frame(1, NO_REQUEST_ID))
        peer.feed(send(1, 0))
        assert producer.sequence_ids == []
        assert not peer.is_closed
        clock.now += 30
        peer.feed(send(1, 1))
        assert peer.is_closed

    async def test_the_same_id_can_be_created_again(self) -> None:
        peer, _ = await producing(make_traffic())
        peer.connection.close_producer(1)
        peer.say(producer_command())
        answers = await peer.answers()
        assert [answer.type for answer in answers] == [pb.BaseCommand.CLOSE_PRODUCER, pb.BaseCommand.PRODUCER_SUCCESS]
        peer.feed(send(1, 0))
        again: Any = peer.connection.producers[1]
        assert again.sequence_ids == [0]

    async def test_a_client_too_old_to_be_told_is_disconnected(self) -> None:
        traffic = make_traffic()
        peer = Peer(traffic).connect(version=4)
        peer.say(producer_command(), subscribe())
        await settle()
        peer.connection.close_consumer(1)
        assert peer.is_closed
        assert traffic.broker.service.topic(TOPIC).producers[0].closed == 1

    async def test_an_unknown_id_is_no_news(self) -> None:
        peer = Peer(make_traffic()).connect()
        await peer.answers()
        peer.connection.close_producer(5)
        peer.connection.close_consumer(5)
        assert await peer.answers() == []


def test_addresses_are_printed_as_java_prints_them() -> None:
    async def addresses() -> list[str]:
        traffic = make_traffic(FakeService())
        return [
            Peer(traffic, ("127.0.0.1", 5)).connection.remote_address,
            Peer(traffic, ("::1", 5)).connection.remote_address,
        ]

    assert asyncio.run(addresses()) == ["/127.0.0.1:5", "/[::1]:5"]


def test_the_parser_agrees_about_the_prefix_of_a_send() -> None:
    frame = send(1, 0)
    assert parse_command(frame[8 : 8 + struct.unpack_from(">I", frame, 4)[0]]).type == pb.BaseCommand.SEND
