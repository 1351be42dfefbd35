"""The ports of a broker: this module decides which ports are on, reserves them, and makes the addresses that clients
get.

A broker has up to four ports: one for the client protocol and one for HTTP, each in the clear and over TLS. A port may
be off (PORT_OFF), but at least one port for the client protocol and one for HTTP must be on.
"""

import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.config.broker_config import BrokerConfig, ConfigError, ServerConfig
from magnetar.server.config.key_kinds import PORT_OFF
from magnetar.server.config.security_settings import TlsSettings
from magnetar.server.network.port_reservation import reserve_port

if TYPE_CHECKING:
    import ssl


class PortChoice(NamedTuple):
    """The ports that the command line asks for. None means that the configuration decides about this port."""

    broker: int | None = None
    broker_tls: int | None = None
    web: int | None = None
    web_tls: int | None = None


class Urls(NamedTuple):
    """The address of each port as a URL, which is empty for a port that is off."""

    broker: str = ""
    broker_tls: str = ""
    web: str = ""
    web_tls: str = ""


class ReservedPort(NamedTuple):
    """A reserved socket, and the TLS context for the socket, which is None for a port in the clear."""

    sock: socket.socket
    tls: "ssl.SSLContext | None" = None


class ReservedPorts:
    """The reserved sockets, which do not listen yet, and the addresses of the ports."""

    def __init__(self, broker: list[ReservedPort], web: list[ReservedPort], urls: Urls) -> None:
        self.broker = broker
        self.web = web
        self.urls = urls

    def close(self) -> None:
        """Closes the sockets that are still reserved. A listener that was started has closed its socket already."""
        for each in (*self.broker, *self.web):
            each.sock.close()


SCHEMES = ("pulsar", "pulsar+ssl", "http", "https")


def chosen_ports(choice: PortChoice, config: BrokerConfig) -> PortChoice:
    """Returns the ports to open: a port of the command line outranks that of the configuration. Raises ConfigError when
    both ports of the client protocol or both HTTP ports are off, so that nobody could connect."""
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


def reserve_ports(config: ServerConfig, choice: PortChoice, host: str, advertised: str) -> ReservedPorts:
    """Binds every port that is on, and returns the sockets with their addresses, which have `advertised` as the host.
    Raises ConfigError, SecurityConfigError, AlreadyInUseError, OSError; no port stays bound after an error."""
    ports = chosen_ports(choice, config.broker)
    contexts = _tls_contexts(config, ports)
    listening: list[ReservedPort] = []
    urls: list[str] = []
    reserved: list[list[ReservedPort]] = [[], []]
    try:
        for index, (port, scheme, tls) in enumerate(zip(ports, SCHEMES, contexts, strict=True)):
            assert port is not None, "`chosen_ports` left none out"
            if port == PORT_OFF:
                urls.append("")
                continue
            listening.append(ReservedPort(reserve_port(host, port), tls))
            reserved[index // 2].append(listening[-1])
            urls.append(f"{scheme}://{advertised}:{listening[-1].sock.getsockname()[1]}")
    except BaseException:
        for each in listening:
            each.sock.close()
        raise
    return ReservedPorts(reserved[0], reserved[1], Urls(*urls))


def _tls_contexts(config: ServerConfig, ports: PortChoice) -> "list[ssl.SSLContext | None]":
    """Returns the TLS context of each port, None for a port in the clear. The module `tls` is imported only if some
    port uses TLS."""
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
