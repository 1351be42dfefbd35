"""The interface to which a connection passes its frames. The interface keeps commands and handlers out of the
connection's own code."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pulsar_proto.wire.framing import Frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection


class FrameReceiver(Protocol):
    """Handles the frames that one connection has read."""

    def take(self, cnx: "Connection", frames: list[Frame], then: Callable[[], None] | None = None) -> None:
        """Handles the frames, now or soon, and calls `then` when all are handled. Raises MalformedFrame for a frame
        that closes the connection."""

    def forget(self) -> None:
        """Called when the connection is closed: drops the frames that wait, and cancels requests that only read."""
