"""advertisedListeners: the addresses by which clients in different networks reach this broker.

A client may name a listener in each lookup, and is sent to the address of that listener. A client that names no
listener is sent to the address of the internal listener. Sources: MultipleListenerValidator,
ServiceConfigurationUtils.getInternalListener, PIP-61.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from magnetar.server.network.ports import SCHEMES, Urls


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The configuration's keys for advertised listeners. Raises ValueError, which names the key, for settings that do
    not fit together."""

    advertised_listeners: tuple[str, ...] = ()
    """The listeners, each in the form `name:pulsar://host:port`. A name may come once for each of the schemes pulsar,
    pulsar+ssl, http and https."""
    internal_listener_name: str = ""
    """The name of the internal listener. If this is empty, the first of the advertised listeners is the internal
    listener."""
    advertised_address: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the listeners, in the order of the configuration."""
        return tuple(parse_listeners(self.advertised_listeners))

    def __post_init__(self) -> None:
        named = parse_listeners(self.advertised_listeners)
        if named and self.advertised_address:
            raise ValueError("advertised_listeners and advertised_address exclude each other")
        if self.internal_listener_name and self.internal_listener_name not in named:
            raise ValueError(f"internal_listener_name: advertised_listeners has no {self.internal_listener_name!r}")


class AdvertisedListeners:
    """The addresses that lookups answer, by the names of the listeners."""

    def __init__(self, own: Urls, settings: ListenerSettings | None = None) -> None:
        """`own` holds the addresses of the ports themselves. If the internal listener has no address with the scheme of
        an open port, the first listener that has one supplies it; if no listener has one, the address in `own` is
        used."""
        settings = settings or ListenerSettings()
        self._named = parse_listeners(settings.advertised_listeners)
        name = settings.internal_listener_name or next(iter(self._named), "")
        chosen, others = self._named.get(name, Urls()), [*self._named.values(), own]
        of_schemes = zip(chosen, own, zip(*others, strict=True), strict=True)
        self.internal = Urls(*(url or (port and next(filter(None, urls))) for url, port, urls in of_schemes))

    @property
    def named(self) -> Mapping[str, Urls]:
        """The configured addresses, by the names of the listeners."""
        return self._named


@lru_cache(maxsize=64)  # each lookup asks for the addresses of a listener
def goes_through(urls: Urls) -> bool:
    """Returns whether clients must stay on the address that they have dialled, because the broker's own address is a
    loopback address, which leads elsewhere on another machine or outside of a container. Lookup answers tell this to
    clients with `proxy_through_service_url`, as the answers of Apache's standalone server do."""
    host = urlsplit(urls.broker or urls.broker_tls).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_listeners(items: Sequence[str]) -> dict[str, Urls]:
    """Parses `advertisedListeners`: the addresses by listener, in the order of the configuration. Raises ValueError."""
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
