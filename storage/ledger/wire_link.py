"""Keeps the connection to one bookie in one protocol. A link connects on first use and, after a connection has ended,
on the next use.

States: no connection; connecting (adds wait in order, up to the limit for unanswered adds); connected; backing off
after a failure (requests fail at once, because an ensemble change is better than waiting); closed.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial

from magnetar.storage.ledger.bookie_channel import AddDone
from magnetar.storage.ledger.ledger_errors import BookieHandleNotAvailable, BookieOverloaded
from magnetar.storage.ledger.start_tls import TlsRequest, start_tls
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.ledger.wire_connection import BookieConnection
from pulsar_proto.backoff import backoff

log = logging.getLogger(__name__)

Address = tuple[str, int]
UNHEARD_MAX = 2
"""After this many connections in a row that ended before a byte came, the next connect is delayed as if a connect had
failed. A single such end may be the answer of an old bookie to a batch read."""

WaitingAdd = tuple[int, bytes, Sequence[int], Sequence[bytes], int, AddDone]


class WireLink:
    """The link to one bookie. At each connect the link calls `address()`, which may raise LookupError."""

    def __init__(self, name: str, address: Callable[[], Address], config: WireConfig, *, speaks_v2: bool) -> None:
        self.name = name
        self.speaks_v2 = speaks_v2
        self._address = address
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._connection: BookieConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[WaitingAdd] = []
        self._waiting_bytes = 0
        self._failures = 0
        """How many attempts in a row gave no connection, or a connection without an answer."""
        self._not_before = 0.0
        self._failure = ""
        self._unheard = 0
        self._closed = False

    @property
    def connection(self) -> BookieConnection | None:
        """The open connection, or None."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    def add(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        """Implements `BookieChannel.add_entries`."""
        connection = self._connection
        if connection is not None and connection.is_open:
            connection.add(ledger_id, master_key, entry_ids, entries, flags, done)
            return
        if not self._may_connect():
            self._loop.call_soon(done, entry_ids, BookieHandleNotAvailable.code)
            return
        size = sum(map(len, entries))
        if self._waiting and self._waiting_bytes + size > self._config.unanswered_bytes_max:
            self._loop.call_soon(done, entry_ids, BookieOverloaded.code)
            return
        self._waiting.append((ledger_id, master_key, entry_ids, entries, flags, done))
        self._waiting_bytes += size

    async def open_connection(self) -> BookieConnection:
        """Returns the open connection, or a new one. Raises ConnectionError."""
        while (connection := self.connection) is None:
            if not self._may_connect():
                raise ConnectionRefusedError(f"bookie {self.name}: {self._failure or 'the channel is closed'}")
            assert self._connecting is not None
            await asyncio.wait([self._connecting])
        return connection

    def _may_connect(self) -> bool:
        """Begins to connect, unless the link is closed or backs off. Returns whether a connection is being made."""
        if self._connecting is not None:
            return True
        ended, self._connection = self._connection, None
        if ended is not None:
            self._unheard = 0 if ended.heard else self._unheard + 1
            if self._unheard >= UNHEARD_MAX:
                self._connect_failed("it closes each connection without an answer")
        if self._closed or self._loop.time() < self._not_before:
            return False
        self._connecting = self._loop.create_task(self._connect())
        return True

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._config.connect_timeout_sec):
                host, port = self._address()
                connection = await self._open(host, port)
        except (OSError, LookupError) as error:
            self._connect_failed(str(error) or type(error).__name__)
        except asyncio.CancelledError:
            self._fail_waiting()
            raise
        else:
            self._connection = connection
            if not self._unheard:
                self._failures = 0
            if self._failure:
                log.info("bookie %s: connected again", self.name)
                self._failure = ""
            self._connecting = None
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            for add in waiting:
                connection.add(*add)

    async def _open(self, host: str, port: int) -> BookieConnection:
        make = partial(BookieConnection, self.name, self._config, speaks_v2=self.speaks_v2)
        if self._config.tls is None:
            transport, connection = await self._loop.create_connection(make, host, port)
        else:
            transport, asking = await self._loop.create_connection(TlsRequest, host, port)
            connection = make()
            await start_tls(transport, asking, connection, self._config.tls())
        own = transport.get_extra_info("socket")
        if own is not None and own.family in (socket.AF_INET, socket.AF_INET6):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _connect_failed(self, why: str) -> None:
        config = self._config
        self._failures += 1
        delay = backoff(self._failures, config.reconnect_delay_min_sec, config.reconnect_delay_max_sec)
        self._not_before = self._loop.time() + delay
        if not self._failure:
            log.warning("bookie %s cannot be reached: %s", self.name, why)
        self._failure = why
        self._connecting = None
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for _, _, entry_ids, _, _, done in waiting:
            done(entry_ids, BookieHandleNotAvailable.code)

    async def close(self) -> None:
        """Fails all requests that have no answer. Idempotent."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
            self._connecting = None
        if self._connection is not None:
            self._connection.abort("the channel is closed")
