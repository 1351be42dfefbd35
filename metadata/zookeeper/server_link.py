"""One TCP connection to a ZooKeeper server, called a link. The link passes received bytes on, and reports its own
loss."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast


class ServerLink(asyncio.Protocol):
    """One connection to a server.

    The link calls `received` with the bytes that came, and `lost` when the connection has ended. The owner
    sets the future `attached` when the handshake is over; the link sets it to False if the connection is lost before
    that. `gone` completes when the connection is lost.
    """

    def __init__(
        self, name: str, received: "Callable[[ServerLink, bytes], None]", lost: "Callable[[ServerLink, str], None]"
    ) -> None:
        self.name = name
        self._received = received
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        loop = asyncio.get_running_loop()
        self.attached: asyncio.Future[bool] = loop.create_future()
        self.has_served = False
        """The owner sets this once a request was answered."""
        self.gone: asyncio.Future[None] = loop.create_future()

    @property
    def is_gone(self) -> bool:
        return self.gone.done()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def read_on(self, wanted: bool) -> None:
        """Reads from the socket, or, if `wanted` is False, stops reading, because there is enough to do. Has no effect
        when the link does so already."""
        if wanted != self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def abort(self) -> None:
        """Closes the connection without waiting for anything. A second call has no effect."""
        if not self.attached.done():
            self.attached.set_result(False)
        if not self.gone.done():
            self.gone.set_result(None)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass of asyncio's
        if self.is_gone:
            self._transport.abort()
            return
        handle = transport.get_extra_info("socket")
        if handle is not None:
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._received(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(self, "the server closed the connection" if error is None else f"{error!r}")
