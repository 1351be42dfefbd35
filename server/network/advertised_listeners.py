"""advertisedListeners: the addresses by which clients of different networks reach this broker.

A client names its listener in each lookup and is sent to that one's address; who names none gets the internal one's.
Sources: MultipleListenerValidator, ServiceConfigurationUtils.getInternalListener, PIP-61.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from magnetar.server.network.ports import SCHEMES, Urls


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Raises ValueError, which names the key."""

    advertised_listeners: tuple[str, ...] = ()
    """`name:pulsar://host:port`; a name may come once for each of the schemes pulsar, pulsar+ssl, http and https."""
    internal_listener_name: str = ""
    """Empty: the first one's."""
    advertised_address: str = ""

    def __post_init__(self) -> None:
        named = parse_listeners(self.advertised_listeners)
        if named and self.advertised_address:
            raise ValueError("advertised_listeners and advertised_address exclude each other")
        if self.internal_listener_name and self.internal_listener_name not in named:
            raise ValueError(f"internal_listener_name: advertised_listeners has no {self.internal_listener_name!r}")


class AdvertisedListeners:
    """What lookups answer."""

    def __init__(self, own: Urls, settings: ListenerSettings | None = None) -> None:
        """`own`: what the ports are reached by; it stands in for what the internal listener does not name."""
        settings = settings or ListenerSettings()
        self._named = parse_listeners(settings.advertised_listeners)
        name = settings.internal_listener_name or next(iter(self._named), "")
        chosen = self._named.get(name, Urls())
        self.internal = Urls(*(url or default for url, default in zip(chosen, own, strict=True)))

    def of(self, name: str) -> Urls | None:
        """By the name that a client says, which may be empty. None: there is no such listener."""
        return self._named.get(name) if name else self.internal


def goes_through(urls: Urls) -> bool:
    """Clients stay on the address that they dialled: standalone on a loopback address only (facts 3)."""
    host = urlsplit(urls.broker or urls.broker_tls).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_listeners(items: Sequence[str]) -> dict[str, Urls]:
    """The listeners by name, the first one first. Raises ValueError."""
    found: dict[str, dict[str, str]] = {}
    owners: dict[str, str] = {}
    for item in items:
        name, _, url = (part.strip() for part in item.partition(":"))
        parts = urlsplit(url)
        if not name or parts.scheme not in SCHEMES or not parts.hostname or not _port_of(url) or parts.path:
            raise ValueError(
                f"advertised_listeners: {item!r} is none: expected NAME:SCHEME://HOST:PORT, where SCHEME is one of "
                f"{', '.join(SCHEMES)}"
            )
        owner = owners.setdefault(parts.netloc, name)
        if owner != name:
            raise ValueError(f"advertised_listeners: {parts.netloc} is the address of {owner} and of {name}")
        urls = found.setdefault(name, {})
        if parts.scheme in urls:
            raise ValueError(f"advertised_listeners: {name} has two addresses for {parts.scheme}")
        urls[parts.scheme] = url
    return {name: Urls(*(urls.get(scheme, "") for scheme in SCHEMES)) for name, urls in found.items()}


def _port_of(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None
