"""The id and the addresses of one broker, and the record of a bundle's owner, which has these addresses. Does no I/O.

Sources: NamespaceEphemeralData, LookupData, AdvertisedListener; BrokerService.getBrokerId.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from magnetar.metadata.cluster_init import to_json
from magnetar.server.network.ports import Urls
from pulsar_proto.errors import MalformedRecord

NO_LISTENERS: Mapping[str, Urls] = {}
NO_URLS = Urls()

LISTENER_KEYS = ("brokerServiceUrl", "brokerServiceUrlTls", "brokerHttpUrl", "brokerHttpsUrl")
"""The keys of an AdvertisedListener, in the order of `Urls`."""
OWNER_KEYS = ("nativeUrl", "nativeUrlTls", "httpUrl", "httpUrlTls")
"""The keys of a NamespaceEphemeralData, in the order of `Urls`."""


@dataclass(frozen=True)
class BrokerAddresses:
    """The addresses of one broker. They are in the answers of lookups and in the records of bundle owners."""

    broker_id: str = ""
    """`host:port` of the web port. The id is only a name in records, never an address to connect to."""
    urls: Urls = NO_URLS
    """The addresses for peers, and for clients that name no listener."""
    listeners: Mapping[str, Urls] = field(default_factory=dict)
    """The addresses for clients that name a listener (advertisedListeners)."""

    def of(self, listener: str) -> Urls | None:
        """Returns the addresses for clients that name this listener; an empty `listener` stands for clients that name
        no listener. Returns None when the broker has no listener of that name."""
        return self.listeners.get(listener) if listener else self.urls

    @property
    def web_url(self) -> str:
        """`http://host:port`, or `https://host:port` when the only web port is one with TLS."""
        return self.urls.web or self.urls.web_tls


def addresses_of(urls: Urls, listeners: Mapping[str, Urls] = NO_LISTENERS, broker_id: str = "") -> BrokerAddresses:
    """Returns the addresses of a broker. Without a `broker_id` the id is made from the web address."""
    return BrokerAddresses(broker_id or urlsplit(urls.web or urls.web_tls).netloc, urls, dict(listeners))


@dataclass(frozen=True, slots=True)
class BundleOwner:
    """The record of a bundle's owner, /namespace/{tenant}/{namespace}/{range}."""

    broker: BrokerAddresses
    is_disabled: bool = False
    """Whether the owner is about to give the bundle away. Brokers of Pulsar 4 do not write this field; older brokers
    did."""

    def value(self) -> bytes:
        """Returns the record's bytes, which do not include the broker id."""
        record: dict[str, object] = _urls_value(self.broker.urls, OWNER_KEYS)
        record["disabled"] = self.is_disabled
        record["advertisedListeners"] = listeners_value(self.broker.listeners)
        return to_json(record)


def parse_owner(value: bytes) -> BundleOwner:
    """Parses a NamespaceEphemeralData. Raises MalformedRecord when the value is not the JSON of one."""
    try:
        record = json.loads(value)
        if not isinstance(record, dict):
            raise TypeError("not an object")
        urls = Urls(*(str(record.get(key) or "") for key in OWNER_KEYS))
        listeners = parse_listeners_value(record.get("advertisedListeners"))
    except (ValueError, TypeError, AttributeError) as error:
        raise MalformedRecord(f"this is not the record of a bundle's owner: {value[:200]!r}") from error
    return BundleOwner(addresses_of(urls, listeners), record.get("disabled") is True)


def listeners_value(listeners: Mapping[str, Urls]) -> dict[str, object]:
    """Returns the listeners in the format of records, which is the JSON of Apache's map of AdvertisedListener."""
    return {name: _urls_value(urls, LISTENER_KEYS) for name, urls in listeners.items()}


def parse_listeners_value(value: object) -> dict[str, Urls]:
    """Parses the result of `listeners_value`; None stands for no listeners. Raises TypeError or AttributeError for any
    other value."""
    found: dict[str, Urls] = {}
    for name, urls in dict(value or {}).items():  # type: ignore[call-overload]
        found[str(name)] = Urls(*(str(urls.get(key) or "") for key in LISTENER_KEYS))
    return found


def _urls_value(urls: Urls, keys: tuple[str, ...]) -> dict[str, object]:
    return {key: url for key, url in zip(keys, urls, strict=True) if url}
