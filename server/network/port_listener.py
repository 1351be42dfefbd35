"""Listens on the ports for one kind of client, in the clear and over TLS. A subclass makes the protocols of accepted
connections."""

import asyncio
import socket
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.server.process.descriptors import DESCRIPTORS, Refused

if TYPE_CHECKING:
    import ssl

TLS_HANDSHAKE_SECONDS_MAX = 10.0
"""The longest time that a TLS handshake may take. A peer that takes longer is disconnected."""

TLS_SHUTDOWN_SECONDS_MAX = 1.0
"""How long a connection that the server closes waits for the peer to end TLS on the peer's side."""


class PortListener(ABC):
    """The base of all listeners. The owner of a listener calls `start` once for each port, and `close` of the subclass
    once at the end."""

    def __init__(self, backlog: int) -> None:
        """The kernel holds `backlog` connections that were not accepted yet, and refuses further connections."""
        self._backlog = backlog
        self._servers: list[asyncio.Server] = []

    @abstractmethod
    def _accept(self, listener_name: str) -> asyncio.BaseProtocol:
        """Makes the protocol of a new connection. `listener_name` is the one that `start` was called with."""

    @abstractmethod
    def _log_start(self, port: int, *, with_tls: bool) -> None:
        """Writes a line into the log that says for which clients this port listens."""

    async def start(
        self,
        host: str | None = None,
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        tls: "ssl.SSLContext | None" = None,
        listener_name: str = "",
    ) -> int:
        """Listens on a port and returns its number, which the system chooses if `port` is 0. With a bound socket in
        `sock`, host and port are not used. `listener_name` is the name of the advertised listener to which the port
        belongs; it is empty for a port that belongs to no listener. Raises OSError."""
        options: dict[str, Any] = {"backlog": self._backlog}
        options |= {"sock": sock} if sock is not None else {"host": host, "port": port}
        if tls is not None:
            options |= {
                "ssl": tls,
                "ssl_handshake_timeout": TLS_HANDSHAKE_SECONDS_MAX,
                "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS_MAX,
            }
        server = await asyncio.get_running_loop().create_server(
            partial(self._accept_with_room, listener_name), **options
        )
        self._servers.append(server)
        actual: int = server.sockets[0].getsockname()[1]
        self._log_start(actual, with_tls=tls is not None)
        return actual

    def _stop_listening(self) -> bool:
        """Closes the ports; connections stay as they are. Returns False when no port was ever opened."""
        for server in self._servers:
            server.close()
        return bool(self._servers)

    def _accept_with_room(self, listener_name: str) -> asyncio.BaseProtocol:
        """Makes the protocol of a new connection. Closes the connection at once when the process has no file descriptor
        left for it."""
        return self._accept(listener_name) if DESCRIPTORS.has_room() else Refused()
