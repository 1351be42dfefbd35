"""The interface through which a socket uses the service of all sockets, so that the two modules need not know each
other."""

from typing import TYPE_CHECKING, Protocol

from magnetar.server.security.operations import TopicOperation
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.config.websocket_settings import WebSocketSettings
    from magnetar.server.process.byte_budget import ByteBudget
    from magnetar.server.websocket.in_flight_bytes import InFlightBytes
    from magnetar.server.websocket.websocket_client import WebSocketClient


class SocketService(Protocol):
    """All sockets of a broker use one `upgrade.WebSocketService` through this interface."""

    broker: "Broker"
    settings: "WebSocketSettings"
    in_flight: "InFlightBytes"
    unfinished: "ByteBudget"
    """The bound on the bytes of messages that have come only in part, of all sockets."""

    async def authorize(
        self, client: "WebSocketClient", operation: TopicOperation, topic: TopicName, subscription: str | None
    ) -> None:
        """Returns when the peer may do the operation; raises the errors of `WebSocketClient.authorize`."""

    def named(self, client: "WebSocketClient") -> str:
        """Returns the text by which log lines name a socket's purpose."""

    def left(self, client: "WebSocketClient") -> None:
        """Called when the socket has ended."""
