"""The connection's shell: input, output, back-pressure, keep-alive, requests in progress, and how it ends."""

import asyncio
import logging
import struct
from typing import Any

import pytest

from pulsar_proto.commands import close_producer_frame, parse_command, send_frame, simple_frame
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.payload import build_payload
from pulsar_proto.pb import pulsar_api_pb2 as pb
from server import connection as connection_module
from server import requests as requests_module
from server.broker_context import BrokerContext
from server.output import OUTPUT_HIGH_WATER_BYTES
from tests.server.fakes import FakeProducer, FakeService, Peer, command, make_broker, settle

TOPIC = "persistent://public/default/t"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def payload(body: bytes = b"hello") -> bytes:
    return build_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), body)


def send(producer_id: int, sequence_id: int, body: bytes = b"hello") -> bytes:
    return send_frame(pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id), payload(body))


def producer_command(producer_id: int = 1, request_id: int = 1, topic: str = TOPIC) -> pb.BaseCommand:
    return command("PRODUCER", "producer", topic=topic, producer_id=producer_id, request_id=request_id)


def subscribe_command(consumer_id: int = 1, request_id: int = 1) -> pb.BaseCommand:
    return command(
        "SUBSCRIBE",
        "subscribe",
        topic=TOPIC,
        subscription="s",
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=consumer_id,
        request_id=request_id,
    )


async def with_producer(broker: Any, producer_id: int = 1) -> tuple[Peer, FakeProducer]:
    peer = Peer(broker).connect()
    peer.say(producer_command(producer_id))
    await peer.answers()
    return peer, broker.service.topic(TOPIC).producers[-1]


class TestInput:
    async def test_sends_of_one_read_are_one_group_per_producer_in_order(self) -> None:
        peer, first = await with_producer(make_broker())
        peer.say(producer_command(2, 2))
        await settle()
        second: Any = peer.connection.producers[2]
        peer.feed(send(1, 0) + send(2, 0) + send(1, 1) + send(1, 2) + send(2, 1))
        assert [len(group) for group in first.groups] == [3]
        assert (first.sequence_ids, second.sequence_ids) == ([0, 1, 2], [0, 1])
        assert first.groups[0][0][1] == payload()

    async def test_another_command_splits_the_group_and_keeps_its_place(self) -> None:
        peer, producer = await with_producer(make_broker())
        closing = simple_frame(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=9))
        peer.feed(send(1, 0) + send(1, 1) + closing)
        assert producer.sequence_ids == [0, 1]
        assert producer.closed == 1
        assert (await peer.answer()).success.request_id == 9

    @pytest.mark.parametrize("chunk", [1, 2, 7, 64, 1000])
    async def test_frames_may_come_in_any_pieces(self, chunk: int) -> None:
        peer, producer = await with_producer(make_broker())
        stream = b"".join(send(1, sequence_id, b"x" * sequence_id) for sequence_id in range(20))
        peer.feed(stream, chunk)
        assert producer.sequence_ids == list(range(20))

    async def test_a_message_of_the_largest_size_passes(self) -> None:
        peer, producer = await with_producer(make_broker())
        peer.feed(send(1, 0, bytes(5_242_880)))
        assert len(producer.groups[0][0][1]) > 5_242_880
        assert not peer.is_closed

    async def test_an_unknown_type_is_ignored(self) -> None:
        peer = Peer(make_broker()).connect()
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
        broker = make_broker()
        other, producer = await with_producer(broker)
        peer = Peer(broker, ("10.1.2.3", 4711))
        with caplog.at_level(logging.INFO):
            peer.feed(data)
            assert await peer.answers() == []
        assert peer.is_closed
        lines = [record.getMessage() for record in caplog.records if "/10.1.2.3:4711" in record.getMessage()]
        assert len(lines) == 1
        assert reason in lines[0]
        other.feed(send(1, 0))
        assert producer.sequence_ids == [0]
        assert broker.connections == {other.connection}

    async def test_sound_frames_before_a_bad_one_are_handled(self) -> None:
        peer, producer = await with_producer(make_broker())
        peer.feed(send(1, 0) + send(1, 1) + struct.pack(">II", 2**31, 1))
        assert producer.sequence_ids == [0, 1]
        assert peer.is_closed

    async def test_nothing_is_handled_after_the_frame_that_closed(self) -> None:
        peer, producer = await with_producer(make_broker())
        second_connect = simple_frame(command("CONNECT", "connect", client_version="x"))
        peer.feed(send(1, 0) + second_connect + send(1, 1))
        assert producer.sequence_ids == [0]
        assert peer.is_closed

    @pytest.mark.parametrize("kind", ["SEND", "PRODUCER", "SUBSCRIBE", "LOOKUP", "FLOW", "ACK"])
    async def test_any_command_before_connect_closes_silently(self, kind: str) -> None:
        peer = Peer(make_broker())
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
        broker = make_broker()
        other, _ = await with_producer(broker)
        peer, producer = await with_producer(broker)
        producer.publish = None  # type: ignore[assignment,method-assign]
        peer.feed(send(1, 0))
        assert peer.is_closed
        assert not other.is_closed
        assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


class TestEnd:
    async def test_losing_the_connection_closes_producers_and_consumers_once(self) -> None:
        broker = make_broker()
        peer, producer = await with_producer(broker)
        peer.say(subscribe_command())
        await settle()
        (consumer,) = broker.service.topic(TOPIC).consumers
        peer.transport.lose(ConnectionResetError("reset"))
        peer.connection.close("again")
        await settle()
        assert (producer.closed, consumer.closed) == (1, 1)
        assert broker.connections == set()
        assert broker.counters.closed == 1

    async def test_what_was_said_before_the_close_is_delivered(self) -> None:
        peer = Peer(make_broker()).connect()
        peer.connection.close("enough")
        assert [answer.type for answer in await peer.answers()] == [pb.BaseCommand.CONNECTED]

    async def test_writing_to_a_closed_connection_does_nothing(self) -> None:
        peer = Peer(make_broker()).connect()
        await peer.answers()
        peer.connection.close("enough")
        peer.connection.write(b"late")
        peer.connection.write_frames([b"later"])
        peer.connection.close_producer(1)
        peer.connection.throttle_reading("key")
        peer.connection.release_reading("key")
        assert await peer.answers() == []
        assert not await peer.connection.check_liveness()

    async def test_lookups_in_progress_are_cancelled_with_the_connection(self) -> None:
        broker = make_broker()
        broker.service.gate = asyncio.Event()
        peer = Peer(broker).connect()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1))
        await settle()
        assert broker.lookups_in_progress == 1
        peer.transport.lose()
        await settle()
        assert broker.lookups_in_progress == 0

    async def test_a_request_cancelled_before_it_began_leaves_no_warning(self, recwarn: Any) -> None:
        peer = Peer(make_broker()).connect()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1))
        peer.transport.lose()
        await settle()
        assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]

    async def test_an_ack_whose_wait_never_began_leaves_no_warning(self, recwarn: Any) -> None:
        async def durable() -> None:
            """Never begins."""

        broker = make_broker()
        peer = Peer(broker).connect()
        peer.say(subscribe_command())
        await settle()
        broker.service.topic(TOPIC).consumers[0].ack = lambda request: durable()
        peer.say(command("ACK", "ack", consumer_id=1, ack_type=0, request_id=1))
        peer.transport.lose()
        await settle()
        assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]

    async def test_a_producer_that_comes_into_being_after_the_loss_is_closed(self) -> None:
        broker = make_broker()
        gate = broker.service.gate = asyncio.Event()
        peer = Peer(broker).connect()
        peer.say(producer_command(), subscribe_command())
        await settle()
        peer.transport.lose()
        await settle()
        gate.set()
        await settle()
        topic = broker.service.topic(TOPIC)
        assert [producer.closed for producer in topic.producers] == [1]
        assert [consumer.closed for consumer in topic.consumers] == [1]
        assert not broker.background_tasks

    async def test_a_peer_that_does_not_take_its_last_bytes_is_cut_off(self) -> None:
        clock = Clock()
        peer = Peer(make_broker(clock=clock)).connect()
        peer.transport.close = lambda: None  # type: ignore[method-assign]
        peer.connection.close("enough")
        peer.connection.tick(clock.now)
        assert not peer.transport.aborted
        clock.now += connection_module.CLOSE_DEADLINE_SECONDS
        peer.connection.tick(clock.now)
        assert peer.transport.aborted


class TestAdmission:
    @pytest.mark.parametrize("limit", ["broker_max_connections", "broker_max_connections_per_ip"])
    async def test_one_connection_too_many_is_told_and_closed(self, limit: str) -> None:
        limits: dict[str, Any] = {limit: 1}
        broker = make_broker(**limits)
        first = Peer(broker)
        second = Peer(broker)
        answer = await second.answer()
        assert (answer.error.request_id, answer.error.error) == (NO_REQUEST_ID, pb.NotAllowedError)
        assert second.is_closed
        assert not first.is_closed
        first.transport.lose()
        assert not Peer(broker).is_closed

    async def test_the_limit_per_address_is_for_each_address(self) -> None:
        broker = make_broker(broker_max_connections_per_ip=1)
        Peer(broker, ("10.0.0.1", 1))
        assert not Peer(broker, ("10.0.0.2", 1)).is_closed


class TestBackPressure:
    async def test_reading_stops_at_the_publish_limit_and_resumes_at_half(self) -> None:
        peer, producer = await with_producer(make_broker(max_pending_publish_requests_per_connection=10))
        peer.feed(b"".join(send(1, index) for index in range(9)))
        assert peer.transport.reading
        peer.feed(send(1, 9))
        assert not peer.transport.reading
        producer.receipt(4)
        await settle()
        assert not peer.transport.reading
        producer.receipt(1)
        await settle()
        assert peer.transport.reading

    async def test_the_limit_is_over_all_producers_and_dead_ones_do_not_count(self) -> None:
        peer, _ = await with_producer(make_broker(max_pending_publish_requests_per_connection=10))
        peer.say(producer_command(2, 2))
        await settle()
        peer.feed(b"".join(send(1, index) + send(2, index) for index in range(5)))
        assert not peer.transport.reading
        peer.connection.close_producer(1)
        await settle()
        assert peer.transport.reading

    async def test_the_budget_of_all_connections_stops_the_one_that_exceeds_it(self) -> None:
        broker: BrokerContext = make_broker(max_message_publish_buffer_size_in_mb=1)
        idle, first = await with_producer(broker)
        busy, second = await with_producer(broker)
        idle.feed(send(1, 0, bytes(700_000)))
        busy.feed(send(1, 0, bytes(500_000)))
        assert idle.transport.reading
        assert not busy.transport.reading
        second.receipt(1)
        await settle()
        assert not busy.transport.reading, "the other connection still holds more than half"
        first.pending = 0
        busy.connection.tick(0.0)
        assert busy.transport.reading
        assert broker.budget.unanswered_bytes == 0

    async def test_who_waits_for_the_budget_goes_on_when_another_connection_frees_it(self) -> None:
        broker: BrokerContext = make_broker(max_message_publish_buffer_size_in_mb=1)
        first, holder = await with_producer(broker)
        waiting, _ = await with_producer(broker)
        first.feed(send(1, 0, bytes(900_000)))
        waiting.feed(send(1, 0, bytes(200_000)))
        assert first.transport.reading
        assert not waiting.transport.reading
        holder.receipt(1)
        await settle()
        assert waiting.transport.reading, "without waiting for the next sweep"

    async def test_a_topic_that_cannot_let_go_does_not_keep_the_connection(self) -> None:
        broker: BrokerContext = make_broker()
        peer, producer = await with_producer(broker)
        peer.say(producer_command(2, 2))
        await settle()
        other: Any = peer.connection.producers[2]

        def fail() -> None:
            raise AssertionError("a bug of a topic")

        producer.close = fail  # type: ignore[method-assign]
        peer.transport.lose()
        assert other.is_closed
        assert not broker.connections
        assert broker.budget.unanswered_bytes == 0

    async def test_publishes_that_are_answered_at_once_leave_nothing_behind(self) -> None:
        broker: BrokerContext = make_broker(max_pending_publish_requests_per_connection=2)
        peer, producer = await with_producer(broker)
        for sequence_id in range(5):
            peer.feed(send(1, sequence_id) + send(1, sequence_id))
            producer.receipt(2)
            await settle()
            assert peer.transport.reading
        assert broker.budget.unanswered_bytes == 0

    async def test_a_connection_that_publishing_closes_holds_no_budget(self) -> None:
        broker: BrokerContext = make_broker()
        peer, producer = await with_producer(broker)
        producer.publish = lambda sends: peer.connection.close("too much")  # type: ignore[method-assign]
        peer.feed(send(1, 0))
        await settle()
        assert broker.budget.unanswered_bytes == 0

    async def test_a_lost_connection_gives_its_bytes_back(self) -> None:
        broker: BrokerContext = make_broker(max_message_publish_buffer_size_in_mb=1)
        first, _ = await with_producer(broker)
        second, _ = await with_producer(broker)
        first.feed(send(1, 0, bytes(900_000)))
        second.feed(send(1, 0, bytes(200_000)))
        assert not second.transport.reading
        first.transport.lose()
        assert second.transport.reading
        assert broker.budget.unanswered_bytes == len(payload(bytes(200_000)))

    async def test_who_does_not_take_answers_does_not_get_to_ask(self) -> None:
        peer = Peer(make_broker()).connect()
        await peer.answers()
        peer.transport.blocked = True
        peer.connection.write(bytes(OUTPUT_HIGH_WATER_BYTES + 1))
        await settle()
        assert not peer.connection.is_writable
        assert not peer.transport.reading
        peer.transport.take(OUTPUT_HIGH_WATER_BYTES)
        assert peer.connection.is_writable
        assert peer.transport.reading

    async def test_every_key_must_be_released(self) -> None:
        connection = (peer := Peer(make_broker()).connect()).connection
        connection.throttle_reading("rate")
        connection.throttle_reading("quota")
        connection.throttle_reading("rate")
        connection.release_reading("rate")
        assert not peer.transport.reading
        connection.release_reading("rate")
        connection.release_reading("quota")
        assert peer.transport.reading

    async def test_requests_in_progress_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests_module, "REQUESTS_MAX", 3)
        broker = make_broker()
        broker.service.gate = asyncio.Event()
        peer = Peer(broker).connect()
        await peer.answers()
        lookups = [command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=index) for index in range(4)]
        peer.say(*lookups)
        answer = (await peer.answer()).lookupTopicResponse
        assert (answer.request_id, answer.error) == (3, pb.TooManyRequests)
        broker.service.gate.set()
        assert [each.lookupTopicResponse.request_id for each in await peer.answers()] == [0, 1, 2]
        peer.say(lookups[3])
        assert (await peer.answer()).lookupTopicResponse.error == pb.UnknownError


class TestKeepAlive:
    async def test_a_silent_peer_is_pinged_then_closed(self) -> None:
        clock = Clock()
        peer = Peer(make_broker(clock=clock)).connect()
        await peer.answers()
        clock.now += 30
        peer.connection.tick(clock.now)
        assert (await peer.answer()).type == pb.BaseCommand.PING
        clock.now += 30
        peer.connection.tick(clock.now)
        assert peer.is_closed

    async def test_any_command_counts_as_life(self) -> None:
        clock = Clock()
        peer = Peer(make_broker(clock=clock)).connect()
        for _ in range(5):
            clock.now += 30
            peer.connection.tick(clock.now)
            peer.say(command("FLOW", "flow", consumer_id=9, messagePermits=1))
        assert not peer.is_closed

    async def test_who_never_connects_is_closed(self) -> None:
        clock = Clock()
        peer = Peer(make_broker(clock=clock))
        clock.now += 30
        peer.connection.tick(clock.now)
        assert peer.is_closed

    async def test_who_takes_nothing_for_an_interval_is_cut_off_and_who_takes_slowly_is_not(self) -> None:
        clock = Clock()
        peer = Peer(make_broker(clock=clock)).connect()
        peer.transport.blocked = True
        peer.connection.write(bytes(OUTPUT_HIGH_WATER_BYTES * 2))
        await settle()
        for _ in range(3):
            clock.now += 30
            peer.transport.take(10)
            peer.connection.tick(clock.now)
            await settle()
            assert not peer.is_closed
        clock.now += 30
        peer.connection.tick(clock.now)
        assert peer.transport.aborted


class TestLiveness:
    async def test_an_answer_in_time_is_life(self) -> None:
        peer = Peer(make_broker()).connect()
        await peer.answers()
        checks = [asyncio.ensure_future(peer.connection.check_liveness()) for _ in range(2)]
        assert (await peer.answer()).type == pb.BaseCommand.PING
        peer.say(command("PONG", "pong"))
        assert await asyncio.gather(*checks) == [True, True]
        again = asyncio.ensure_future(peer.connection.check_liveness())
        assert (await peer.answer()).type == pb.BaseCommand.PING
        peer.transport.lose()
        assert not await again

    async def test_silence_closes(self) -> None:
        peer = Peer(make_broker(connection_liveness_check_timeout_millis=1)).connect()
        assert not await peer.connection.check_liveness()
        assert peer.is_closed

    async def test_a_throttled_peer_is_not_judged(self) -> None:
        peer = Peer(make_broker(connection_liveness_check_timeout_millis=1)).connect()
        peer.connection.throttle_reading("rate")
        assert await peer.connection.check_liveness()
        assert not peer.is_closed

    async def test_switched_off_it_takes_the_old_connection_for_alive(self) -> None:
        peer = Peer(make_broker(connection_liveness_check_timeout_millis=0)).connect()
        assert await peer.connection.check_liveness()
        assert [answer.type for answer in await peer.answers()] == [pb.BaseCommand.CONNECTED]


class TestClosedByTheBroker:
    async def test_the_client_is_told_and_late_sends_are_dropped(self) -> None:
        clock = Clock()
        peer, producer = await with_producer(make_broker(clock=clock))
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
        peer, _ = await with_producer(make_broker())
        peer.connection.close_producer(1)
        peer.say(producer_command())
        answers = await peer.answers()
        assert [answer.type for answer in answers] == [pb.BaseCommand.CLOSE_PRODUCER, pb.BaseCommand.PRODUCER_SUCCESS]
        peer.feed(send(1, 0))
        again: Any = peer.connection.producers[1]
        assert again.sequence_ids == [0]

    async def test_a_client_too_old_to_be_told_is_disconnected(self) -> None:
        broker = make_broker()
        peer = Peer(broker).connect(version=4)
        peer.say(producer_command(), subscribe_command())
        await settle()
        peer.connection.close_consumer(1)
        assert peer.is_closed
        assert broker.service.topic(TOPIC).producers[0].closed == 1

    async def test_an_unknown_id_is_no_news(self) -> None:
        peer = Peer(make_broker()).connect()
        await peer.answers()
        peer.connection.close_producer(5)
        peer.connection.close_consumer(5)
        assert await peer.answers() == []


def test_addresses_are_printed_as_java_prints_them() -> None:
    async def addresses() -> list[str]:
        broker = make_broker(FakeService())
        return [
            Peer(broker, ("127.0.0.1", 5)).connection.remote_address,
            Peer(broker, ("::1", 5)).connection.remote_address,
        ]

    assert asyncio.run(addresses()) == ["/127.0.0.1:5", "/[::1]:5"]


def test_the_parser_agrees_about_the_prefix_of_a_send() -> None:
    frame = send(1, 0)
    assert parse_command(frame[8 : 8 + struct.unpack_from(">I", frame, 4)[0]]).type == pb.BaseCommand.SEND
