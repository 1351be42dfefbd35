"""bindAddresses: further addresses to listen on, each for the clients of one advertised listener.

A client that comes in by such an address and names no listener in a lookup is sent to the address that the topic's
owner advertises for the listener of the bind address. Sources: BindAddressValidator, BrokerService.start,
ServerCnx.handleLookup, PIP-95.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

BROKER_SCHEMES = ("pulsar", "pulsar+ssl")
"""The schemes of the binary protocol. Apache's broker opens no other bind address: its web ports listen on bindAddress
only (WebService), and other schemes belong to protocol handlers."""

_FORM = re.compile(r"(?P<listener>[^:]+):(?P<url>[a-z][a-z0-9+.\-]*://.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BindAddress:
    """One address to listen on."""

    listener: str
    """The name of the advertised listener whose clients come in here."""
    scheme: str
    """One of BROKER_SCHEMES."""
    host: str
    port: int
    """0 picks a free port."""

    @property
    def has_tls(self) -> bool:
        return self.scheme == "pulsar+ssl"


@dataclass(frozen=True, slots=True)
class BindSettings:
    """The configuration's key for bind addresses. Raises ValueError, which names the key, for a value that is no
    address."""

    bind_addresses: tuple[str, ...] = ()
    """The addresses, each in the form `listener:pulsar://host:port`."""

    def __post_init__(self) -> None:
        parse_bind_addresses(self.bind_addresses)


def bind_addresses(settings: BindSettings, listeners: Iterable[str]) -> list[BindAddress]:
    """Returns the addresses to listen on for the binary protocol. A warning names the addresses of other schemes, which
    are not opened, and the addresses whose listener is not one of the advertised `listeners`: lookups of their clients
    fail."""
    known, opened = set(listeners), []
    for each in parse_bind_addresses(settings.bind_addresses):
        if each.scheme not in BROKER_SCHEMES:
            log.warning(
                "bindAddresses: %s://%s:%d is not opened: addresses of %s are", each.scheme, each.host, each.port,
                " and ".join(BROKER_SCHEMES),
            )  # fmt: skip
            continue
        if each.listener not in known:
            log.warning(
                "bindAddresses: advertisedListeners has no %r: lookups of clients that come in by port %d fail",
                each.listener,
                each.port,
            )
        opened.append(each)
    return opened


def parse_bind_addresses(items: Sequence[str]) -> list[BindAddress]:
    """Parses `bindAddresses`, with the addresses of all schemes. Raises ValueError."""
    found: list[BindAddress] = []
    places: set[tuple[str, int]] = set()
    for item in items:
        match = _FORM.fullmatch(item)
        try:
            url = urlsplit("" if match is None else match["url"].strip())
            host, port = url.hostname, url.port
        except ValueError:
            match = host = port = None
        if match is None or host is None or port is None or url.path:
            raise ValueError(f"bind_addresses: malformed: {item!r}: expected LISTENER:SCHEME://HOST:PORT")
        if port and (host, port) in places:
            raise ValueError(f"bind_addresses: {host} port {port} is there twice")
        places.add((host, port))
        found.append(BindAddress(match["listener"].strip(), url.scheme.lower(), host, port))
    return found
