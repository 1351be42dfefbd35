"""One TCP connection to a ZooKeeper server: hands over what comes, and says when it is gone."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast


class ServerLink(asyncio.Protocol):
    """`received` gets the bytes; `lost` is called when the other side ended the connection. `attached` is set by the
    owner when the handshake is over (False if the link went before); `gone` ends with the link."""

    def __init__(
        self, name: str, received: "Callable[[ServerLink, bytes], None]", lost: "Callable[[ServerLink, str], None]"
    ) -> None:
        self.name = name
        self._received = received
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        self.attached: asyncio.Future[bool] = loop.create_future()
        self.has_served = False
        """Set by the owner when a request was answered."""
        self.gone: asyncio.Future[None] = loop.create_future()

    @property
    def is_gone(self) -> bool:
        return self.gone.done()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        """Closes without waiting for anything. Idempotent."""
        if not self.attached.done():
            self.attached.set_result(False)
        if not self.gone.done():
            self.gone.set_result(None)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
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
