"""The ZooKeeper server itself: its port, its connections, and its periodic work."""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable

from magnetar.metadata.zookeeper_server import four_letter_words
from magnetar.metadata.zookeeper_server.connection import Connection
from magnetar.metadata.zookeeper_server.journal import Journal
from magnetar.metadata.zookeeper_server.processor import Processor, monotonic_ms
from magnetar.metadata.zookeeper_server.server_settings import UNLIMITED, ZooKeeperSettings
from magnetar.metadata.zookeeper_server.session_rules import TimeoutBounds

log = logging.getLogger(__name__)

BACKLOG = 1_024
DRAIN_SECONDS = 1.0
"""How long an orderly stop waits for the requests that are under way. Clients whose requests are not answered by then
lose the connection, as after a kill."""


class ZooKeeperServer:
    """A server on a file. Callers get a server from `open`. All calls are made on the loop's thread."""

    def __init__(self, journal: Journal, processor: Processor, settings: ZooKeeperSettings) -> None:
        self.journal = journal
        self.processor = processor
        self.settings = settings
        self.timeouts = TimeoutBounds(settings.session_timeout_min_ms, settings.session_timeout_max_ms)
        self.connections: set[Connection] = set()
        self.port = 0
        self._has_room: Callable[[], bool] = lambda: True
        self._by_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._began_at = time.monotonic()
        self._next_tick_ms = 0

    @classmethod
    async def open(
        cls,
        folder: str,
        settings: ZooKeeperSettings,
        *,
        witness_folder: str | None = None,
        accepted_generation: int | None = None,
    ) -> "ZooKeeperServer":
        """Opens or makes the file in `folder`, which must exist. Raises StoreFileError and its subclasses when the file
        cannot be used. All checks are made before anything on disk is changed."""
        journal, state, is_accepted = await Journal.open(folder, witness_folder or folder, accepted_generation)
        processor = Processor(state, settings.tick_ms, journal.commit)
        if is_accepted:
            processor.skip_epoch()
        return cls(journal, processor, settings)

    async def start(self, sock: socket.socket, *, has_room: Callable[[], bool] = lambda: True) -> None:
        """Serves on a bound socket. `has_room` returns whether a further connection may be accepted. Raises OSError
        when the socket cannot listen."""
        self._has_room = has_room
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=sock, backlog=BACKLOG)
        self.port = sock.getsockname()[1]
        self._schedule_tick()
        self._schedule_containers()

    async def close(self) -> None:
        """Takes no more requests, makes the requests that are under way durable and answers them, and closes the file.
        The sessions last: their clients can continue them after the next start."""
        for timer in self._timers.values():
            timer.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.take_no_more()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.processor.drained()
        except TimeoutError:
            log.warning("requests were under way for more than %s s; nothing acknowledged is lost", DRAIN_SECONDS)
        for connection in list(self.connections):
            connection.end()
        await self.journal.close()

    def uptime_ms(self) -> int:
        return int((time.monotonic() - self._began_at) * 1000)

    # The methods that connections call

    def admit(self, connection: Connection) -> bool:
        """Returns whether a new connection may stay, and counts the connection if so."""
        address, settings = connection.address, self.settings
        of_address, total = settings.connections_per_address_max, settings.connections_max
        if of_address != UNLIMITED and self._by_address[address] >= of_address:
            log.warning("%s: too many connections from one address, at most %d (maxClientCnxns)", address, of_address)
        elif total != UNLIMITED and len(self.connections) >= total:
            log.warning("%s: too many connections, at most %d (maxCnxns)", address, total)
        elif self._has_room():
            self.connections.add(connection)
            self._by_address[address] += 1
            return True
        return False

    def gone(self, connection: Connection) -> None:
        """Forgets a connection that has ended."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]
        self.processor.detach(connection)

    def is_command(self, buffer: bytearray) -> bool:
        """Returns whether a connection begins with a four-letter word."""
        return bytes(buffer[:4]) in four_letter_words.WORDS_AS_BYTES

    def run_command(self, word: bytes, connection: Connection) -> None:
        """Answers a four-letter word and ends the connection."""
        connection.send(four_letter_words.text_of(word.decode(), self).encode())
        connection.end()

    # Periodic work

    def _schedule_tick(self) -> None:
        tick_ms, moment_ms = self.settings.tick_ms, monotonic_ms()
        self._next_tick_ms = (moment_ms // tick_ms + 1) * tick_ms
        delay = (self._next_tick_ms - moment_ms + 1) / 1000
        self._timers["tick"] = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        moment_ms = monotonic_ms()
        if self.journal.waits_for_room or moment_ms - self._next_tick_ms > self.settings.tick_ms:
            # The server itself could not listen, and has yet to read what clients sent meanwhile.
            self.processor.sessions.postpone(moment_ms)
        else:
            self.processor.expire_sessions()
        self._schedule_tick()

    def _schedule_containers(self) -> None:
        delay = self.settings.container_check_ms / 1000
        self._timers["containers"] = asyncio.get_running_loop().call_later(delay, self._delete_containers)

    def _delete_containers(self) -> None:
        if not self.journal.waits_for_room:
            deleted = self.processor.delete_empty_containers()
            if deleted:
                log.info("deleted %d empty containers", deleted)
        self._schedule_containers()
