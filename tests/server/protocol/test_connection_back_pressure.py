"""Back-pressure of a connection: when it stops reading, when it goes on, and how many requests it takes at a time."""

import asyncio
from typing import Any

import pytest

from magnetar.server.protocol import requests as requests_module
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.output import OUTPUT_HIGH_WATER_BYTES
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import TOPIC, payload, producing, send
from tests.server.protocol.handler_scene import producer as producer_command


class TestBackPressure:
    async def test_reading_stops_at_the_publish_limit_and_resumes_at_half(self) -> None:
        peer, producer = await producing(make_traffic(max_pending_publish_requests_per_connection=10))
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
        peer, _ = await producing(make_traffic(max_pending_publish_requests_per_connection=10))
        peer.say(producer_command(2, 2))
        await settle()
        peer.feed(b"".join(send(1, index) + send(2, index) for index in range(5)))
        assert not peer.transport.reading
        peer.connection.close_producer(1)
        await settle()
        assert peer.transport.reading

    async def test_the_budget_of_all_connections_stops_the_one_that_exceeds_it(self) -> None:
        traffic: ClientTraffic = make_traffic(max_message_publish_buffer_size_in_mb=1)
        idle, first = await producing(traffic)
        busy, second = await producing(traffic)
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
        assert traffic.budget.unanswered_bytes == 0

    async def test_who_waits_for_the_budget_goes_on_when_another_connection_frees_it(self) -> None:
        traffic: ClientTraffic = make_traffic(max_message_publish_buffer_size_in_mb=1)
        first, holder = await producing(traffic)
        waiting, _ = await producing(traffic)
        first.feed(send(1, 0, bytes(900_000)))
        waiting.feed(send(1, 0, bytes(200_000)))
        assert first.transport.reading
        assert not waiting.transport.reading
        holder.receipt(1)
        await settle()
        assert waiting.transport.reading, "without waiting for the next sweep"

    async def test_a_topic_that_cannot_let_go_does_not_keep_the_connection(self) -> None:
        traffic: ClientTraffic = make_traffic()
        peer, producer = await producing(traffic)
        peer.say(producer_command(2, 2))
        await settle()
        other: Any = peer.connection.producers[2]

        def fail() -> None:
            raise AssertionError("a bug of a topic")

        producer.close = fail  # type: ignore[method-assign]
        peer.transport.lose()
        assert other.is_closed
        assert not traffic.connections
        assert traffic.budget.unanswered_bytes == 0

    async def test_publishes_that_are_answered_at_once_leave_nothing_behind(self) -> None:
        traffic: ClientTraffic = make_traffic(max_pending_publish_requests_per_connection=2)
        peer, producer = await producing(traffic)
        for sequence_id in range(5):
            peer.feed(send(1, sequence_id) + send(1, sequence_id))
            producer.receipt(2)
            await settle()
            assert peer.transport.reading
        assert traffic.budget.unanswered_bytes == 0

    async def test_a_connection_that_publishing_closes_holds_no_budget(self) -> None:
        traffic: ClientTraffic = make_traffic()
        peer, producer = await producing(traffic)
        producer.publish = lambda sends: peer.connection.close("too much")  # type: ignore[method-assign]
        peer.feed(send(1, 0))
        await settle()
        assert traffic.budget.unanswered_bytes == 0

    async def test_a_lost_connection_gives_its_bytes_back(self) -> None:
        traffic: ClientTraffic = make_traffic(max_message_publish_buffer_size_in_mb=1)
        first, _ = await producing(traffic)
        second, _ = await producing(traffic)
        first.feed(send(1, 0, bytes(900_000)))
        second.feed(send(1, 0, bytes(200_000)))
        assert not second.transport.reading
        first.transport.lose()
        assert second.transport.reading
        assert traffic.budget.unanswered_bytes == len(payload(bytes(200_000)))

    async def test_only_connections_with_unanswered_publishes_are_settled(self) -> None:
        traffic: ClientTraffic = make_traffic()
        await producing(traffic)
        busy, producer = await producing(traffic)
        lost, _ = await producing(traffic)
        for each in (busy, lost):
            each.feed(send(1, 0))
        assert traffic.publishing == {busy.connection, lost.connection}
        lost.transport.lose()
        producer.receipt(1)
        assert traffic.counters.unanswered_publish_bytes() == 0
        assert not traffic.publishing
        busy.feed(send(1, 1))
        assert traffic.publishing == {busy.connection}

    async def test_who_does_not_take_answers_does_not_get_to_ask(self) -> None:
        peer = Peer(make_traffic()).connect()
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
        connection = (peer := Peer(make_traffic()).connect()).connection
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
        traffic = make_traffic()
        traffic.broker.service.gate = asyncio.Event()
        peer = Peer(traffic).connect()
        await peer.answers()
        lookups = [command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=index) for index in range(4)]
        peer.say(*lookups)
        answer = (await peer.answer()).lookupTopicResponse
        assert (answer.request_id, answer.error) == (3, pb.TooManyRequests)
        traffic.broker.service.gate.set()
        assert {each.lookupTopicResponse.request_id for each in await peer.answers()} == {0, 1, 2}
        peer.say(lookups[3])
        assert (await peer.answer()).lookupTopicResponse.error == pb.UnknownError
