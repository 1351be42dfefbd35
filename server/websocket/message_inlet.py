"""The entries that topics write for the consumers of one socket, on their way to the peer. The entries are opened in
order, and their messages wait here until the session delivers them.

Opening an entry means to decompress it and to separate the messages of a batch. For the topics, the inlet is the
`ClientConnection` of the socket. While more than `HELD_BYTES_HIGH` bytes wait in the inlet, it is not writable, so
dispatchers stop sending. Permits alone would not bound the memory, because one permit may stand for a batch of
megabytes."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.server.websocket.consumer_query_rules import CryptoFailureAction
from magnetar.server.websocket.received_messages import (
    OpenedEntry,
    ReceivedMessage,
    StoredEntry,
    open_in_turns,
    open_now,
)

if TYPE_CHECKING:
    from magnetar.server.security.principals import Principal
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

HELD_BYTES_HIGH = 1 << 20
"""While more bytes than this wait in an inlet, the topics send nothing."""


class MessageInlet:
    """Implements `magnetar.server.topics.client_connection.ClientConnection` by means of the socket's client."""

    def __init__(
        self,
        client: "WebSocketClient",
        action: CryptoFailureAction,
        opened: Callable[[StoredEntry, OpenedEntry], None],
    ) -> None:
        """`opened` is called for each opened entry, in order. This callback has to call `put` for the messages that are
        to be delivered."""
        self.messages: deque[ReceivedMessage] = deque()
        self._client = client
        self._action = action
        self._opened = opened
        self._entries: deque[StoredEntry] = deque()
        self._opening: asyncio.Task[None] | None = None
        self._written_bytes = 0
        """The number of bytes that topics wrote and that the session has not got yet."""
        self.held_bytes = 0
        """The size of all entries and messages that wait here."""
        self._waiters: list[Callable[[], None]] = []

    # --- ClientConnection --------------------------------------------------------------------------------------------

    @property
    def remote_address(self) -> str:
        return self._client.remote_address

    @property
    def principal(self) -> "Principal | None":
        """The peer's principal, by which `PermissionRecheck` judges the peer's consumers."""
        return self._client.principal

    @property
    def client_version(self) -> str:
        return self._client.client_version

    @property
    def protocol_version(self) -> int:
        return self._client.protocol_version

    @property
    def is_open(self) -> bool:
        return self._client.is_open

    @property
    def is_writable(self) -> bool:
        return self._written_bytes + self.held_bytes < HELD_BYTES_HIGH and self._client.is_writable

    def when_writable(self, callback: Callable[[], None]) -> None:
        self._waiters.append(callback)
        if not self._client.is_writable:
            self._client.when_writable(self.wake)

    def write(self, data: bytes) -> None:
        self._written_bytes += len(data)
        self._client.write(data)

    def write_frames(self, chunks: list[bytes]) -> None:
        self._written_bytes += sum(map(len, chunks))
        self._client.write_frames(chunks)

    def throttle_reading(self, key: object) -> None:
        self._client.throttle_reading(key)

    def release_reading(self, key: object) -> None:
        self._client.release_reading(key)

    def close_producer(self, producer_id: int) -> None:
        self._client.close_producer(producer_id)

    def close_consumer(self, consumer_id: int) -> None:
        self._client.close_consumer(consumer_id)

    async def check_liveness(self) -> bool:
        return await self._client.check_liveness()

    def close(self, reason: str) -> None:
        self._client.close(reason)

    # --- for the session ---------------------------------------------------------------------------------------------

    def handed_over(self) -> None:
        """Called when all frames that topics have written so far were handed to the session."""
        self._written_bytes = 0

    def wake(self) -> None:
        """Calls the dispatchers that wait for room, if the inlet is writable again."""
        while self._waiters and self.is_open:
            if not self.is_writable:
                if not self._client.is_writable:
                    self._client.when_writable(self.wake)
                return
            waiters, self._waiters = self._waiters, []
            for callback in waiters:
                callback()

    def add(self, entry: StoredEntry) -> None:
        """Takes an entry. The entry is opened at once if that is quick and no earlier entry waits."""
        if not self._entries and self._opening is None:
            opened = open_now(entry, self._action)
            if opened is not None:
                self._opened(entry, opened)
                return
        self._entries.append(entry)
        self.held_bytes += len(entry.payload)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def put(self, message: ReceivedMessage) -> None:
        """Queues a message for delivery."""
        self.held_bytes += message.size
        self.messages.append(message)

    def take(self) -> ReceivedMessage:
        """Removes the next message from the queue and returns it."""
        message = self.messages.popleft()
        self.held_bytes -= message.size
        return message

    def drop(self, consumer_id: int) -> None:
        """Drops the entries and messages of one topic, because the topic will send them again."""
        if not self.messages and not self._entries:
            return
        kept = deque(each for each in self.messages if each.entry.consumer_id != consumer_id)
        self._entries = deque(each for each in self._entries if each.consumer_id != consumer_id)
        self.messages = kept
        self.held_bytes = sum(each.size for each in kept) + sum(len(each.payload) for each in self._entries)

    def close_inlet(self) -> None:
        """Drops all entries and messages. Further calls have no effect."""
        if self._opening is not None:
            self._opening.cancel()
        self._entries.clear()
        self.messages.clear()
        self._waiters.clear()
        self.held_bytes = 0

    async def _open(self) -> None:
        """Opens the entries that wait, one after the other."""
        try:
            while self._entries and self.is_open:
                entry = self._entries[0]
                opened = await open_in_turns(entry, self._action)
                # If the entry was dropped meanwhile, the topic sends it again.
                if self._entries and self._entries[0] is entry:
                    self._entries.popleft()
                    self.held_bytes -= len(entry.payload)
                    self._opened(entry, opened)
        except Exception:
            log.exception("%s: a message could not be opened", self.remote_address)
            self.close("an error of the server; its log says more")
        finally:
            self._opening = None
