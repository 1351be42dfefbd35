"""The interface through which topics use a client's connection, so that topics never see sockets."""

from collections.abc import Callable
from typing import Protocol

CPP_CLIENT = "Pulsar-CPP"
"""The beginning of `client_version` of the C++ client, and of the Python and Node clients, which are made of it."""

NO_METADATA: dict[str, str] = {}
"""The metadata of all producers and consumers that send none. Nobody changes this dictionary."""


class ClientConnection(Protocol):
    """One client's connection. Every method is called on the event loop's thread.

    All bytes that are written during one turn of the event loop are sent in one system call at the end of the turn.
    Writing to a closed connection has no effect."""

    @property
    def remote_address(self) -> str:
        """The client's address as `/host:port`, the form in which Pulsar's stats print it."""

    @property
    def client_version(self) -> str: ...

    @property
    def protocol_version(self) -> int: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_writable(self) -> bool:
        """False while the bytes that wait for the peer exceed the high-water mark. Dispatchers do not choose consumers
        of such a connection."""

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, when the connection is writable again. If the connection closes first, `callback` is
        never called."""

    def write(self, data: bytes) -> None:
        """Queues one or more whole frames."""

    def write_frames(self, chunks: list[bytes]) -> None:
        """Queues many byte strings in order, without joining large byte strings. A frame may be spread over several
        byte strings."""

    def throttle_reading(self, key: object) -> None:
        """Stops reading from this client until every key that throttled it is released. A key names a reason, such as
        pending publishes or a rate."""

    def release_reading(self, key: object) -> None: ...

    def close_producer(self, producer_id: int) -> None:
        """Called when the topic has closed a producer (fenced, terminated, unloaded, deleted): forgets the producer's
        id and sends CLOSE_PRODUCER to the client. SENDs that are still on their way are dropped silently for one
        keep-alive interval. Does not call `Producer.close()`, because the producer is closed already."""

    def close_consumer(self, consumer_id: int) -> None:
        """Called when the topic has closed a consumer (seek, unsubscribe by force, unloaded, deleted): forgets the
        consumer's id and sends CLOSE_CONSUMER to the client. Does not call `Consumer.close()`."""

    async def check_liveness(self) -> bool:
        """Sends a PING, and returns True as soon as any command of the peer comes. If none comes within
        `connectionLivenessCheckTimeoutMillis`, closes the connection and returns False."""

    def close(self, reason: str) -> None:
        """Logs the reason, closes the socket, and detaches producers and consumers."""
