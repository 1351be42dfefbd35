"""The topics of one socket, wherever they are: this broker serves the topics that it owns by calls, and reaches all
others at their owners, over connections that it opens for this socket alone.

This broker judges whether the peer may use a topic, no matter which broker owns the topic. At other brokers it shows
its own credentials, as Apache's WebSocket service does (WebSocketService.createClientInstance).

When a topic moves to another broker, its consumer or producer ends, as at an unload. The session then attaches anew,
and this module finds the new owner.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from magnetar.server.peers.link_consumer import LinkConsumer, subscribe_over
from magnetar.server.peers.link_producer import LinkProducer, produce_over
from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.peers.peer_link import PeerLink
from magnetar.server.security.operations import TopicOperation
from pulsar_proto.errors import (
    AuthenticationFault,
    AuthorizationFault,
    MetadataFault,
    PulsarError,
    ServiceNotReady,
    TooManyRequests,
)
from pulsar_proto.ids import signed64
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from magnetar.server.peers.peer_links import PeerLinks
    from magnetar.server.topics.client_connection import ClientConnection
    from magnetar.server.topics.publishing.receipt_writers import ReceiptWriter
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

LINGER_SECONDS = 1.0
"""How long the connections of a socket stay open after its end. A connection that is closed at once could lose its last
frames, for example acknowledgements."""


class AttachedConsumer(Protocol):
    """A consumer of a topic of this or another broker: the part of `Consumer` that sockets use."""

    @property
    def permits(self) -> int: ...

    @property
    def blocked(self) -> bool: ...

    def flow(self, permits: int) -> None: ...

    def ack(self, command: pb.CommandAck) -> "Awaitable[None] | None": ...

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None: ...

    async def unsubscribe(self) -> None: ...

    def close(self) -> None: ...


class AttachedProducer(Protocol):
    """A producer of a topic of this or another broker: the part of `Producer` that sockets use."""

    @property
    def name(self) -> str: ...

    @property
    def last_sequence_id(self) -> int: ...

    @property
    def is_closed(self) -> bool: ...

    def publish(self, sends: list[tuple[pb.CommandSend, bytes]]) -> None: ...

    def publish_singles(self, first_sequence_id: int, payloads: list[bytes]) -> None: ...

    def close(self) -> "Awaitable[None] | None": ...


class _Permission(NamedTuple):
    """The permission that the peer needs as long as it uses a topic of another broker."""

    operation: TopicOperation
    topic: TopicName
    subscription: str | None


class SocketTopics:
    """Attaches the consumers and producers of one socket. All calls are made on the event loop's thread."""

    def __init__(self, client: "WebSocketClient", connection: "ClientConnection") -> None:
        """Topics of this broker write the frames for the socket to `connection`, which also says whether the socket has
        room for further messages."""
        self._client = client
        self._connection = connection
        self._links: PeerLinks | None = None
        self._elsewhere: WeakKeyDictionary[LinkConsumer | LinkProducer, _Permission] = WeakKeyDictionary()
        """The consumers and producers at other brokers, as long as the session holds them."""
        self._is_closed = False

    async def subscribe(self, name: TopicName, command: pb.CommandSubscribe) -> AttachedConsumer:
        """Subscribes to a topic. The session gets the consumer's commands by `on_command`. Raises PulsarError when the
        topic refuses the subscription, and ServiceNotReady when the topic's owner cannot be found or does not
        answer."""
        await self._client.authorize(TopicOperation.CONSUME, name, command.subscription)
        link = await self._link_to_owner(name)
        if link is None:
            topic = await self._client.broker.service.get_for_client(name)
            return await topic.subscribe(self._connection, command)
        with _faults_of_owner(name):
            consumer = await subscribe_over(link, command, partial(self._take, link))
        self._elsewhere[consumer] = _Permission(TopicOperation.CONSUME, name, command.subscription)
        return consumer

    async def add_producer(
        self, name: TopicName, command: pb.CommandProducer, receipts: "ReceiptWriter"
    ) -> AttachedProducer:
        """Attaches a producer to a topic. `receipts` gets the producer's receipts, and the session gets the other
        commands by `on_command`. Raises the errors of `subscribe`."""
        await self._client.authorize(TopicOperation.PRODUCE, name.base)
        link = await self._link_to_owner(name)
        if link is None:
            topic = await self._client.broker.service.get_for_client(name)
            return await topic.add_producer(self._client, command, receipts)
        with _faults_of_owner(name):
            producer = await produce_over(link, command, partial(self._take_answer, receipts))
        self._elsewhere[producer] = _Permission(TopicOperation.PRODUCE, name.base, None)
        return producer

    def close(self) -> None:
        """Called when the session has closed all consumers and producers: closes the connections to other brokers, when
        the last frames have had the time to leave. A second call has no further effect."""
        self._is_closed = True
        links, self._links = self._links, None
        if links is not None:
            broker = self._client.broker
            broker.service.namespace_listeners.remove(self._namespace_changed)
            asyncio.get_running_loop().call_later(LINGER_SECONDS, lambda: broker.spawn(links.close()))

    # --- other brokers -----------------------------------------------------------------------------------------------

    async def _link_to_owner(self, name: TopicName) -> PeerLink | None:
        """Returns a connection to the broker that owns a topic, or None when this broker owns the topic. A topic that
        no broker owns gets an owner. Raises PulsarError."""
        broker = self._client.broker
        if broker.ownership.is_sole or broker.ownership.owns(name):
            return None
        await broker.service.catalog.check_namespace(name.namespace)
        if broker.peer_client is None:
            raise ServiceNotReady(f"{name} has another owner, and this broker has not joined its cluster yet")
        with _faults_of_owner(name):
            try:
                owner = await broker.peer_client.lookup(name)
            except (MetadataFault, TooManyRequests) as error:
                raise ServiceNotReady(str(error)) from error  # for example, the topic's bundle is being unloaded
            if broker.ownership.owns(name):
                return None
            if self._is_closed:
                raise ServiceNotReady("The socket was closed")
            if self._links is None:
                self._links = broker.peer_client.own_links()
                broker.service.namespace_listeners.append(self._namespace_changed)
            link = await self._links.get(owner)
        link.on_output_full = partial(self._output_is_full, link)
        return link

    def _output_is_full(self, link: PeerLink, is_full: bool) -> None:
        """Called when a broker takes its commands too slowly, or takes them again. Meanwhile the socket is not read."""
        if is_full:
            self._client.throttle_reading(link)
        else:
            self._client.release_reading(link)

    def _take(self, link: PeerLink, command: pb.BaseCommand, payload: bytes | None) -> None:
        """Called with each command for a consumer that comes over a link. While the socket has no room for further
        messages, the link is not read."""
        if not self._client.is_open:
            return
        self._client.guarded(self._client.session.on_command, command, payload)
        if payload is not None and not link.is_paused and not self._connection.is_writable:
            link.pause_reading()
            self._connection.when_writable(link.resume_reading)

    def _take_answer(self, receipts: "ReceiptWriter", command: pb.BaseCommand) -> None:
        """Called with each command for a producer that comes over a link."""
        if not self._client.is_open:
            return
        if command.type != pb.BaseCommand.SEND_RECEIPT:
            self._client.guarded(self._client.session.on_command, command, None)
            return
        receipt, place = command.send_receipt, command.send_receipt.message_id
        known = ((receipt.sequence_id, receipt.highest_sequence_id or None),)
        receipts.write_run(known, signed64(place.ledgerId), signed64(place.entryId))

    def _namespace_changed(self, namespace: str) -> None:
        self._client.broker.spawn(self._judge_again(namespace))

    async def _judge_again(self, namespace: str) -> None:
        """Ends the consumers and producers at other brokers for which the peer has lost the permission. A topic's owner
        does so for its own clients only, and this broker's credentials keep the permission. When the session attaches
        again, it is refused with the reason."""
        for attached, permission in list(self._elsewhere.items()):
            if permission.topic.namespace != namespace or attached.is_closed:
                continue
            try:
                await self._client.authorize(*permission)
            except ServiceNotReady as error:
                log.warning("%s: permissions cannot be judged anew: %s", self._client.remote_address, error)
            except PulsarError as error:
                attached.give_up(str(error))


@contextmanager
def _faults_of_owner(name: TopicName) -> Iterator[None]:
    """Raises ServiceNotReady when a topic's owner cannot be reached or refuses this broker's own credentials, which is
    no refusal of the peer."""
    try:
        yield
    except PeerError as error:
        raise ServiceNotReady(f"{name} cannot be reached at its owner: {error}") from error
    except (AuthenticationFault, AuthorizationFault) as error:
        log.warning("%s: its owner refuses this broker (brokerClientAuthenticationPlugin): %s", name, error)
        raise ServiceNotReady(f"{name} cannot be reached: its owner refuses this broker") from error
