"""The ports of a broker: this module decides which ports are on, reserves them, and makes the addresses that clients
get.

A broker has up to four ports: one for the client protocol and one for HTTP, each in the clear and over TLS. A port may
be off (PORT_OFF), but at least one port for the client protocol and one for HTTP must be on.
"""

import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.config.broker_config import BrokerConfig, ConfigError, ServerConfig
from magnetar.server.config.key_kinds import PORT_OFF
from magnetar.server.config.security_settings import TlsSettings
from magnetar.server.network.bind_addresses import BindAddress
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
    """A reserved socket, the TLS context for the socket, which is None for a port in the clear, and the name of the
    listener of a bind address."""

    sock: socket.socket
    tls: "ssl.SSLContext | None" = None
    listener: str = ""


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


def chosen_ports(choice: PortChoice, config: BrokerConfig, further: Sequence[BindAddress] = ()) -> PortChoice:
    """Returns the ports to open: a port of the command line outranks that of the configuration. Raises ConfigError when
    both ports of the client protocol are off and there is no `further` address for it, or both HTTP ports are off, so
    that nobody could connect."""
    configured = PortChoice(
        config.broker_service_port, config.broker_service_port_tls, config.web_service_port, config.web_service_port_tls
    )
    ports = PortChoice(
        *(default if asked is None else asked for asked, default in zip(choice, configured, strict=True))
    )
    for name, kind in (("brokerServicePort", ports[:2]), ("webServicePort", ports[2:])):
        if set(kind) == {PORT_OFF} and not (further and name == "brokerServicePort"):
            raise ConfigError(f"{name} and {name}Tls are both off: one must be there")
    return ports


def reserve_ports(
    config: ServerConfig, choice: PortChoice, host: str, advertised: str, further: Sequence[BindAddress] = ()
) -> ReservedPorts:
    """Binds every port that is on and every `further` address, and returns the sockets with the addresses of the ports,
    which have `advertised` as the host. Raises ConfigError, SecurityConfigError, AlreadyInUseError, OSError; no port
    stays bound after an error."""
    ports = chosen_ports(choice, config.broker, further)
    contexts = _tls_contexts(config, ports, further)
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
        for each in further:
            tls = contexts[1] if each.has_tls else None
            listening.append(ReservedPort(reserve_port(each.host, each.port), tls, each.listener))
            reserved[0].append(listening[-1])
    except BaseException:
        for bound in listening:
            bound.sock.close()
        raise
    return ReservedPorts(reserved[0], reserved[1], Urls(*urls))


def _tls_contexts(
    config: ServerConfig, ports: PortChoice, further: Sequence[BindAddress]
) -> "list[ssl.SSLContext | None]":
    """Returns the TLS context of each port, None for a port in the clear. The module `tls` is imported only if some
    port uses TLS."""
    settings = config.fill(TlsSettings)
    broker_on = ports.broker_tls != PORT_OFF or any(each.has_tls for each in further)
    web_on = ports.web_tls != PORT_OFF
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
