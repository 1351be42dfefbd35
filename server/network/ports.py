"""The ports of a server: which there are, reserved before anything is touched, and the addresses that clients get.

There are up to four: the client protocol and HTTP, each in the clear and over TLS. Any may be off (PORT_OFF), but one
of each kind must be there.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.server.config.broker_config import BrokerConfig, ConfigError, ServerConfig
from magnetar.server.config.honoured_keys import PORT_OFF
from magnetar.server.config.security_settings import TlsSettings
from magnetar.server.network.port_reservation import reserve_port
from magnetar.server.process.descriptors import DESCRIPTORS, Refused

if TYPE_CHECKING:
    import ssl


TLS_HANDSHAKE_SECONDS_MAX = 10.0
"""A peer that has not shaken hands by then is cut off."""

TLS_SHUTDOWN_SECONDS_MAX = 1.0
"""How long a closed connection waits for the peer's own end of TLS."""


class PortChoice(NamedTuple):
    """What the command line says of each port; None leaves it to the configuration."""

    broker: int | None = None
    broker_tls: int | None = None
    web: int | None = None
    web_tls: int | None = None


class Urls(NamedTuple):
    """Of each port; empty where there is none."""

    broker: str = ""
    broker_tls: str = ""
    web: str = ""
    web_tls: str = ""


class Listening(NamedTuple):
    """A reserved socket, and the TLS to speak on it."""

    sock: socket.socket
    tls: "ssl.SSLContext | None" = None


class Ports:
    """Reserved, not listening. `close` gives back what was not used."""

    def __init__(self, broker: list[Listening], web: list[Listening], urls: Urls) -> None:
        self.broker = broker
        self.web = web
        self.urls = urls

    def close(self) -> None:
        for each in (*self.broker, *self.web):
            each.sock.close()


SCHEMES = ("pulsar", "pulsar+ssl", "http", "https")


def chosen(choice: PortChoice, config: BrokerConfig) -> PortChoice:
    """Raises ConfigError when nobody could connect."""
    configured = PortChoice(
        config.broker_service_port, config.broker_service_port_tls, config.web_service_port, config.web_service_port_tls
    )
    ports = PortChoice(
        *(default if asked is None else asked for asked, default in zip(choice, configured, strict=True))
    )
    for name, kind in (("brokerServicePort", ports[:2]), ("webServicePort", ports[2:])):
        if set(kind) == {PORT_OFF}:
            raise ConfigError(f"{name} and {name}Tls are both off: one must be there")
    return ports


def reserve_ports(config: ServerConfig, choice: PortChoice, host: str, advertised: str) -> Ports:
    """Binds every port that is on. Raises ConfigError, SecurityConfigError, AlreadyInUseError, OSError."""
    ports = chosen(choice, config.broker)
    contexts = _tls_contexts(config, ports)
    listening: list[Listening] = []
    urls: list[str] = []
    reserved: list[list[Listening]] = [[], []]
    try:
        for index, (port, scheme, tls) in enumerate(zip(ports, SCHEMES, contexts, strict=True)):
            assert port is not None, "`chosen` left none out"
            if port == PORT_OFF:
                urls.append("")
                continue
            listening.append(Listening(reserve_port(host, port), tls))
            reserved[index // 2].append(listening[-1])
            urls.append(f"{scheme}://{advertised}:{listening[-1].sock.getsockname()[1]}")
    except BaseException:
        for each in listening:
            each.sock.close()
        raise
    return Ports(reserved[0], reserved[1], Urls(*urls))


def _tls_contexts(config: ServerConfig, ports: PortChoice) -> "list[ssl.SSLContext | None]":
    """One for each port that speaks TLS; the module is imported only if there is one."""
    settings = config.fill(TlsSettings)
    broker_on, web_on = ports.broker_tls != PORT_OFF, ports.web_tls != PORT_OFF
    if not broker_on and not web_on:
        return [None] * 4
    from magnetar.server.network.tls import ServerTls

    broker = web = None
    if broker_on:
        broker = ServerTls(settings, now_s=time.monotonic).context
    if web_on:
        protocols, ciphers = settings.web_service_tls_protocols, settings.web_service_tls_ciphers
        web = ServerTls(settings, protocols=protocols, ciphers=ciphers, now_s=time.monotonic).context
    return [None, broker, None, web]


async def listen(
    accept: Callable[[], asyncio.BaseProtocol],
    host: str | None,
    port: int,
    *,
    sock: socket.socket | None,
    tls: "ssl.SSLContext | None",
    backlog: int,
) -> tuple[asyncio.Server, int]:
    """The server and its actual port. `sock`: bound already, then host and port are not used. Raises OSError.

    A connection for which there is no file descriptor to spare is closed without `accept` hearing of it.
    """

    def accept_with_room() -> asyncio.BaseProtocol:
        return accept() if DESCRIPTORS.has_room() else Refused()

    options: dict[str, Any] = {"backlog": backlog}
    options |= {"sock": sock} if sock is not None else {"host": host, "port": port}
    if tls is not None:
        options |= {
            "ssl": tls,
            "ssl_handshake_timeout": TLS_HANDSHAKE_SECONDS_MAX,
            "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS_MAX,
        }
    server = await asyncio.get_running_loop().create_server(accept_with_room, **options)
    return server, server.sockets[0].getsockname()[1]
