"""What a topic may do with a client's connection. The connection implements it; topics never see sockets."""

from collections.abc import Callable
from typing import Protocol


class ClientConnection(Protocol):
    """One client's connection, on the event loop's thread.

    Everything written during one loop turn leaves in one system call at its end. Writing to a closed connection does
    nothing.
    """

    @property
    def remote_address(self) -> str:
        """`/host:port`, as Pulsar's stats print it."""

    @property
    def client_version(self) -> str: ...

    @property
    def protocol_version(self) -> int: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_writable(self) -> bool:
        """False while more than the high-water mark of bytes waits for the peer: dispatchers stop choosing it."""

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the connection is writable again. Not called if it closes first."""

    def write(self, data: bytes) -> None:
        """Queues one or more whole frames."""

    def write_frames(self, chunks: list[bytes]) -> None:
        """Queues many byte strings in order (a frame may be spread over several), without joining large ones."""

    def throttle_reading(self, key: object) -> None:
        """Stops reading this client until every key that throttled is released (pending publishes, rates)."""

    def release_reading(self, key: object) -> None: ...

    def close_producer(self, producer_id: int) -> None:
        """The topic closed this producer (fenced, terminated, unloaded, deleted): forgets the id and tells the client
        with CLOSE_PRODUCER. SENDs that are still on their way are dropped silently for one keep-alive interval. Does
        not call `Producer.close()`: the topic has done that."""

    def close_consumer(self, consumer_id: int) -> None:
        """The topic closed this consumer (seek, unsubscribe by force, unloaded, deleted): forgets the id and tells the
        client with CLOSE_CONSUMER. Does not call `Consumer.close()`."""

    async def check_liveness(self) -> bool:
        """PINGs the peer if it was silent; False after `connectionLivenessCheckTimeoutMillis`, and the connection is
        then closed."""

    def close(self, reason: str) -> None:
        """Logs the reason, closes the socket, and detaches producers and consumers."""
