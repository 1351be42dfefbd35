"""The addresses of the cluster's brokers, from the records of the registered brokers and from the cluster's record.

This broker shows its credentials at these addresses only. Sources: LocalBrokerData, ClusterData.
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError, NoNodeError
from magnetar.metadata.store import MetadataStore, RecordEvent
from magnetar.server.peers.peer_errors import PeerUnreachableError
from magnetar.server.peers.redirect_rules import origin_of

BROKERS = "/loadbalance/brokers"
WEB_FIELDS = ("webServiceUrl", "webServiceUrlTls")
BROKER_FIELDS = ("pulsarServiceUrl", "pulsarServiceUrlTls")
LISTENER_FIELDS = ("brokerServiceUrl", "brokerServiceUrlTls", "brokerHttpUrl", "brokerHttpsUrl")
CLUSTER_FIELDS = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")
AGE_MAX_SECONDS = 60.0
"""The time after which records are read again, even if no change was reported."""


class PeerRecord(NamedTuple):
    """The addresses of one registered broker. An empty text stands for an address that the broker does not have."""

    broker_id: str
    web_url: str
    web_url_tls: str
    broker_url: str
    broker_url_tls: str
    others: tuple[str, ...] = ()
    """The addresses of the broker's advertised listeners."""


class PeerAddresses:
    """The addresses of the cluster's brokers at the last read of the metadata."""

    def __init__(self, store: MetadataStore, cluster: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._cluster_path = paths.cluster_path(cluster)
        self._now_s = now_s
        self._brokers: dict[str, PeerRecord] = {}
        self._places: frozenset[str] = frozenset()
        self._is_stale = True
        self._read_at_s = 0.0
        self._reading = asyncio.Lock()
        self._cancels = [
            store.watch(BROKERS, self._changed, recursive=True),
            store.watch(self._cluster_path, self._changed),
        ]

    def close(self) -> None:
        """Ends the watches. A second call has no further effect."""
        for cancel in self._cancels:
            cancel()
        self._cancels = []

    def _changed(self, event: RecordEvent) -> None:
        self._is_stale = True

    async def brokers(self) -> list[PeerRecord]:
        """Returns the registered brokers. Raises PeerUnreachableError when the metadata cannot be read."""
        await self._refresh()
        return list(self._brokers.values())

    async def broker(self, broker_id: str) -> PeerRecord:
        """Returns the addresses of a registered broker. Raises PeerUnreachableError when the broker is not registered
        or the metadata cannot be read."""
        await self._refresh()
        record = self._brokers.get(broker_id)
        if record is None:
            raise PeerUnreachableError(f"broker {broker_id} is not registered")
        return record

    async def is_known(self, url: str) -> bool:
        """Returns whether the address, of any of the four kinds of ports, belongs to the cluster. Raises
        PeerUnreachableError when the metadata cannot be read."""
        place = place_of(url)
        if place is None:
            return False
        await self._refresh()
        return place in self._places

    async def _refresh(self) -> None:
        async with self._reading:
            if not self._is_stale and self._now_s() - self._read_at_s < AGE_MAX_SECONDS:
                return
            self._is_stale = False  # a change that comes while the records are read makes them stale again
            try:
                brokers, cluster = await self._read()
            except MetadataError as error:
                self._is_stale = True
                raise PeerUnreachableError(f"the brokers' addresses cannot be read: {error}") from error
            self._brokers = {each.broker_id: each for each in brokers}
            urls = [*cluster, *(url for each in brokers for url in (*each[1:5], *each.others))]
            self._places = frozenset(place for url in urls if (place := place_of(url)) is not None)
            self._read_at_s = self._now_s()

    async def _read(self) -> tuple[list[PeerRecord], list[str]]:
        try:
            names = await self._store.children(BROKERS)
        except NoNodeError:
            names = []
        brokers = []
        for name in names:
            record = await self._store.get(f"{BROKERS}/{name}")
            if record is not None:
                brokers.append(parse_broker(name, record.value))
        record = await self._store.get(self._cluster_path)
        data = _json_object(b"" if record is None else record.value)
        return brokers, [url for name in CLUSTER_FIELDS for url in hosts_of(_text(data, name))]


def hosts_of(service_url: str) -> list[str]:
    """Returns an address for each host of a service URL. For instance, `pulsar://a:6650,b:6650` has two."""
    scheme, found, hosts = service_url.partition("://")
    return [f"{scheme}://{host.strip()}" for host in hosts.split(",") if host.strip()] if found else []


def parse_broker(broker_id: str, value: bytes) -> PeerRecord:
    """Parses the record of a registered broker. Fields that make no sense count as missing."""
    data = _json_object(value)
    listeners = data.get("advertisedListeners")
    others: list[str] = []
    for listener in listeners.values() if isinstance(listeners, dict) else ():
        if isinstance(listener, dict):
            others += [url for name in LISTENER_FIELDS if (url := _text(listener, name))]
    urls = [_text(data, name) for name in (*WEB_FIELDS, *BROKER_FIELDS)]
    return PeerRecord(broker_id, urls[0], urls[1], urls[2], urls[3], tuple(others))


def place_of(url: str) -> str | None:
    """Returns `scheme://host:port` of an address of a broker, always with the port; None for any other text."""
    for scheme, as_web in (("pulsar://", "http://"), ("pulsar+ssl://", "https://")):
        if url.startswith(scheme):
            origin = origin_of(as_web + url.removeprefix(scheme))
            return None if origin is None else origin.replace(as_web, scheme, 1)
    return origin_of(url)


def _json_object(value: bytes) -> dict[str, Any]:
    try:
        data = json.loads(value)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
