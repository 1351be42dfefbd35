"""The connections of one socket to other brokers, which the test plays."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers.lookup_walk_rules import Owner
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.peers.peer_errors import PeerUnreachableError
from magnetar.server.peers.peer_link import LinkState, PeerLink
from magnetar.server.websocket.socket_topics import SocketTopics
from pulsar_proto.errors import MetadataFault, ServiceNotReady
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.waiting import until

TOPIC = TopicName.parse("persistent://public/default/t")
SUBSCRIBE = pb.CommandSubscribe(
    topic=TOPIC.full, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=0
)


class FakeTransport:
    def __init__(self) -> None:
        self.is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


class Scene:
    """A socket whose topic another broker owns."""

    def __init__(self) -> None:
        self.link = PeerLink("pulsar://other:6650", PeerCredentials(PeerSettings()), bytearray(1024), 1024)
        self.transport = FakeTransport()
        made: Any = self.transport
        self.link.connection_made(made)
        self.link.state = LinkState.READY
        self.fault: Exception | None = None
        self.throttles: set[object] = set()
        self.has_room = True
        self.waiting: list[Any] = []
        broker = SimpleNamespace(
            ownership=SimpleNamespace(is_sole=False, owns=lambda name: False),
            service=SimpleNamespace(catalog=SimpleNamespace(check_namespace=self.quietly), namespace_listeners=[]),
            peer_client=SimpleNamespace(lookup=self.lookup, own_links=lambda: SimpleNamespace(get=self.get)),
        )
        self.heard: list[pb.BaseCommand] = []
        client = SimpleNamespace(
            broker=broker,
            authorize=self.quietly,
            is_open=True,
            throttle_reading=self.throttles.add,
            release_reading=self.throttles.discard,
            session=SimpleNamespace(on_command=lambda command, payload: self.heard.append(command)),
            guarded=lambda call, *arguments: call(*arguments),
        )
        scene = self

        class Connection:
            when_writable = self.waiting.append

            @property
            def is_writable(self) -> bool:
                return scene.has_room

        self.topics = SocketTopics(cast(Any, client), cast(Any, Connection()))

    async def quietly(self, *_: object) -> None:
        await asyncio.sleep(0)

    async def lookup(self, name: TopicName) -> Owner:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        return Owner(self.link.url)

    async def get(self, owner: Owner) -> PeerLink:
        await asyncio.sleep(0)
        return self.link

    async def attach(self) -> Any:
        """Subscribes to the topic, and has the other broker confirm that."""
        subscribing = asyncio.ensure_future(self.topics.subscribe(TOPIC, SUBSCRIBE))
        await until(lambda: bool(self.link._requests))
        success = pb.CommandSuccess(request_id=1)
        self.link._answered(pb.BaseCommand(type=pb.BaseCommand.SUCCESS, success=success))
        return await subscribing

    def message(self) -> None:
        message = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
        head = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=message).SerializeToString()
        self.link._received(head, b"payload")


async def test_a_socket_is_not_read_while_another_broker_takes_its_commands_too_slowly() -> None:
    scene = Scene()
    await scene.attach()
    scene.link.pause_writing()
    assert scene.throttles == {scene.link}
    scene.link.resume_writing()
    assert scene.throttles == set()


async def test_a_socket_is_read_again_when_the_connection_to_the_slow_broker_is_lost() -> None:
    scene = Scene()
    await scene.attach()
    scene.link.pause_writing()
    scene.link.connection_lost(None)
    assert scene.throttles == set()
    assert [each.close_consumer.consumer_id for each in scene.heard] == [1]


async def test_a_connection_is_not_read_while_the_socket_has_no_room() -> None:
    scene = Scene()
    await scene.attach()
    scene.message()
    assert scene.transport.is_reading
    scene.has_room = False
    scene.message()
    scene.message()
    assert not scene.transport.is_reading
    (wake,) = scene.waiting
    wake()
    assert scene.transport.is_reading


@pytest.mark.parametrize("fault", [PeerUnreachableError("gone"), MetadataFault("is being unloaded")])
async def test_an_owner_that_cannot_be_found_now_may_be_found_later(fault: Exception) -> None:
    scene = Scene()
    scene.fault = fault
    with pytest.raises(ServiceNotReady):
        await scene.topics.subscribe(TOPIC, SUBSCRIBE)


async def test_a_closed_socket_attaches_nowhere() -> None:
    scene = Scene()
    scene.topics.close()
    with pytest.raises(ServiceNotReady):
        await scene.topics.subscribe(TOPIC, SUBSCRIBE)
