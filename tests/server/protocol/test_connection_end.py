"""How a connection ends, because it is lost, closed or silent, and what ends with it."""

import asyncio
from typing import Any

from magnetar.server.protocol import connection as connection_module
from magnetar.server.protocol.output import OUTPUT_HIGH_WATER_BYTES
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import TOPIC, Clock, producing, subscribe
from tests.server.protocol.handler_scene import producer as producer_command


class TestEnd:
    async def test_losing_the_connection_closes_producers_and_consumers_once(self) -> None:
        traffic = make_traffic()
        peer, producer = await producing(traffic)
        peer.say(subscribe())
        await settle()
        (consumer,) = traffic.broker.service.topic(TOPIC).consumers
        peer.transport.lose(ConnectionResetError("reset"))
        peer.connection.close("again")
        await settle()
        assert (producer.closed, consumer.closed) == (1, 1)
        assert traffic.connections == set()
        assert traffic.counters.closed == 1

    async def test_what_was_said_before_the_close_is_delivered(self) -> None:
        peer = Peer(make_traffic()).connect()
        peer.connection.close("enough")
        assert [answer.type for answer in await peer.answers()] == [pb.BaseCommand.CONNECTED]

    async def test_writing_to_a_closed_connection_does_nothing(self) -> None:
        peer = Peer(make_traffic()).connect()
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
        traffic = make_traffic()
        traffic.broker.service.gate = asyncio.Event()
        peer = Peer(traffic).connect()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1))
        await settle()
        assert traffic.broker.lookups_in_progress == 1
        peer.transport.lose()
        await settle()
        assert traffic.broker.lookups_in_progress == 0

    async def test_a_request_cancelled_before_it_began_leaves_no_warning(self, recwarn: Any) -> None:
        peer = Peer(make_traffic()).connect()
        peer.say(command("LOOKUP", "lookupTopic", topic=TOPIC, request_id=1))
        peer.transport.lose()
        await settle()
        assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]

    async def test_an_ack_whose_wait_never_began_leaves_no_warning(self, recwarn: Any) -> None:
        async def durable() -> None:
            """An acknowledgement that waits for its storage, and is cancelled before its first step."""

        traffic = make_traffic()
        peer = Peer(traffic).connect()
        peer.say(subscribe())
        await settle()
        traffic.broker.service.topic(TOPIC).consumers[0].ack = lambda request: durable()
        peer.say(command("ACK", "ack", consumer_id=1, ack_type=0, request_id=1))
        peer.transport.lose()
        await settle()
        assert not [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)]

    async def test_a_producer_that_comes_into_being_after_the_loss_is_closed(self) -> None:
        traffic = make_traffic()
        gate = traffic.broker.service.gate = asyncio.Event()
        peer = Peer(traffic).connect()
        peer.say(producer_command(), subscribe())
        await settle()
        peer.transport.lose()
        await settle()
        gate.set()
        await settle()
        topic = traffic.broker.service.topic(TOPIC)
        assert [producer.closed for producer in topic.producers] == [1]
        assert [consumer.closed for consumer in topic.consumers] == [1]
        assert not traffic.broker.background_tasks

    async def test_a_peer_that_does_not_take_its_last_bytes_is_cut_off(self) -> None:
        clock = Clock()
        peer = Peer(make_traffic(clock=clock)).connect()
        peer.transport.close = lambda: None  # type: ignore[method-assign]
        peer.connection.close("enough")
        peer.connection.tick(clock.now)
        assert not peer.transport.aborted
        clock.now += connection_module.CLOSE_DEADLINE_SECONDS
        peer.connection.tick(clock.now)
        assert peer.transport.aborted


class TestKeepAlive:
    async def test_a_silent_peer_is_pinged_then_closed(self) -> None:
        clock = Clock()
        peer = Peer(make_traffic(clock=clock)).connect()
        await peer.answers()
        clock.now += 30
        peer.connection.tick(clock.now)
        assert (await peer.answer()).type == pb.BaseCommand.PING
        clock.now += 30
        peer.connection.tick(clock.now)
        assert peer.is_closed

    async def test_any_command_counts_as_life(self) -> None:
        clock = Clock()
        peer = Peer(make_traffic(clock=clock)).connect()
        for _ in range(5):
            clock.now += 30
            peer.connection.tick(clock.now)
            peer.say(command("FLOW", "flow", consumer_id=9, messagePermits=1))
        assert not peer.is_closed

    async def test_who_never_connects_is_closed(self) -> None:
        clock = Clock()
        peer = Peer(make_traffic(clock=clock))
        clock.now += 30
        peer.connection.tick(clock.now)
        assert peer.is_closed

    async def test_who_takes_nothing_for_an_interval_is_cut_off_and_who_takes_slowly_is_not(self) -> None:
        clock = Clock()
        peer = Peer(make_traffic(clock=clock)).connect()
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
        peer = Peer(make_traffic()).connect()
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
        peer = Peer(make_traffic(connection_liveness_check_timeout_millis=1)).connect()
        assert not await peer.connection.check_liveness()
        assert peer.is_closed

    async def test_a_throttled_peer_is_not_judged(self) -> None:
        peer = Peer(make_traffic(connection_liveness_check_timeout_millis=1)).connect()
        peer.connection.throttle_reading("rate")
        assert await peer.connection.check_liveness()
        assert not peer.is_closed

    async def test_switched_off_it_takes_the_old_connection_for_alive(self) -> None:
        peer = Peer(make_traffic(connection_liveness_check_timeout_millis=0)).connect()
        assert await peer.connection.check_liveness()
        assert [answer.type for answer in await peer.answers()] == [pb.BaseCommand.CONNECTED]
