"""One connection sends anything at all: the server survives, other connections do not notice, and nothing is left."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from magnetar.server.process.loop_watch import LoopWatch, Stall
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import send_frame, simple_frame
from tests.rounds import rounds
from tests.server.fakes import FakeService, Peer, command, make_traffic, settle
from tests.server.loop_limit import CPU_LIMIT_SECONDS
from tests.server.protocol.frame_strategies import CONNECT, FRAMES, PAYLOAD, SENSIBLE


class World:
    """A broker with a quiet connection and one that misbehaves. It collects every exception that reaches the loop."""

    def __init__(self) -> None:
        self.faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.faults.append(context))
        self.service = FakeService()
        self.traffic = make_traffic(self.service, max_pending_publish_requests_per_connection=5)
        self.quiet = Peer(self.traffic, ("10.0.0.1", 1)).connect()
        self.wild = Peer(self.traffic, ("10.0.0.2", 2))

    async def check(self) -> None:
        """Ends the wild connection, and checks that nothing of it is left."""
        if self.service.gate is not None:
            self.service.gate.set()
        self.service.gate = None
        await settle()
        self.wild.transport.lose()
        await settle()
        await self.quiet.answers()
        self.quiet.say(command("PING", "ping"))
        assert (await self.quiet.answer()).type == pb.BaseCommand.PONG
        assert self.traffic.connections == {self.quiet.connection}
        assert self.traffic.broker.lookups_in_progress == 0
        assert self.traffic.budget.unanswered_bytes == 0
        assert not self.traffic.broker.background_tasks
        topics = self.service.topics.values()
        everybody: list[Any] = [each for topic in topics for each in (*topic.producers, *topic.consumers)]
        for each in everybody:
            assert each.closed == 1, "by the topic, by its client, or with the connection, but once"
        assert self.faults == []


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    stalls: list[Stall] = []

    async def main() -> None:
        world = World()
        with LoopWatch(asyncio.get_running_loop(), CPU_LIMIT_SECONDS, stalls.append, by_cpu=True):
            await scenario(world)
            await world.check()

    asyncio.run(main())
    assert stalls == []


@settings(max_examples=rounds(100), deadline=None)
@given(st.booleans(), st.binary(max_size=300), st.integers(1, 50))
@example(True, struct.pack(">II", 4, 0), 1)
@example(True, struct.pack(">II", 0, 0), 3)
@example(False, b"GET / HTTP/1.1\r\n\r\n", 1)
def test_random_bytes(connect_first: bool, data: bytes, chunk: int) -> None:
    async def scenario(world: World) -> None:
        if connect_first:
            world.wild.connect()
        world.wild.feed(data, chunk)

    run(scenario)


@settings(max_examples=rounds(100), deadline=None)
@given(st.lists(FRAMES, max_size=8), st.data())
def test_damaged_frames(frames: list[bytes], data: st.DataObject) -> None:
    async def scenario(world: World) -> None:
        stream = bytearray(CONNECT + b"".join(frames))
        for _ in range(data.draw(st.integers(0, 3))):
            stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, len(stream)))
        world.wild.feed(bytes(stream[:cut]), data.draw(st.integers(1, 200)))

    run(scenario)


EVENTS = ["turn", "gate", "open", "fence", "seek", "receipts", "tick", "send", "send", "send"]
STEPS = st.one_of(
    SENSIBLE.map(lambda made: ("say", simple_frame(made))),
    st.sampled_from(EVENTS).map(lambda event: (event, b"")),
    st.sampled_from([SENSIBLE.map(simple_frame)] * 5 + [FRAMES])
    .flatmap(lambda frames: frames)
    .map(lambda frame: ("feed", frame)),
)


@settings(max_examples=rounds(150), deadline=None)
@given(st.lists(STEPS, min_size=10, max_size=40), st.booleans())
def test_any_commands_in_any_order_while_topics_close_and_storage_stalls(
    steps: list[tuple[str, bytes]], lose_early: bool
) -> None:
    async def scenario(world: World) -> None:
        connection = world.wild.connect().connection
        service = world.service
        late: list[int] = []
        for step, frame in steps:
            if step in ("feed", "say"):
                world.wild.feed(frame)
                await settle(0 if step == "feed" else 10)
            elif step == "send":
                for producer_id in [*connection.producers, *late]:
                    world.wild.feed(send_frame(pb.CommandSend(producer_id=producer_id, sequence_id=0), PAYLOAD))
            elif step == "turn":
                await settle(3)
            elif step == "gate" and service.gate is None:
                service.gate = asyncio.Event()
            elif step == "open" and service.gate is not None:
                service.gate.set()
                service.gate = None
            elif step == "fence":
                for producer_id, producer in list(connection.producers.items()):
                    producer.close()
                    late.append(producer_id)
                    connection.close_producer(producer_id)
            elif step == "seek":
                for consumer_id, consumer in list(connection.consumers.items()):
                    consumer.close()
                    connection.close_consumer(consumer_id)
            elif step == "receipts":
                for producer in connection.producers.values():
                    fake: Any = producer
                    fake.receipt(fake.pending)
            elif step == "tick":
                connection.tick(world.traffic.now())
        if lose_early:
            world.wild.transport.lose(ConnectionResetError())

    run(scenario)
