"""The name of a bundle: a namespace, and a range of the hashes of topic names. Does no I/O. Source: NamespaceBundle."""

import re
from dataclasses import dataclass
from functools import cached_property

from magnetar.server.namespaces.bundle_ranges import LAST, parse_range, text_of

FULL = text_of(0, LAST)
"""The range of a bundle that is the only one of its namespace."""

_HEARTBEAT = re.compile(r"pulsar/(?:[^/]+/)?([^:/]+:\d+)")
_SLA_MONITOR = re.compile(r"sla-monitor/[^/]+/([^:/]+:\d+)")


@dataclass(frozen=True)
class BundleName:
    """One bundle. Two names are equal when their namespaces and ranges are equal."""

    namespace: str
    range: str
    """The range as Pulsar writes it: `0x00000000_0x40000000`."""

    @classmethod
    def parse(cls, text: str) -> "BundleName":
        """Parses `tenant/namespace/0x…_0x…`. Raises ValueError for any other text."""
        namespace, slash, bounds = text.rpartition("/")
        if not slash or parse_range(bounds) is None:
            raise ValueError(f"{text!r} is not the name of a bundle")
        return cls(namespace, bounds)

    @classmethod
    def of(cls, namespace: str, lower: int, upper: int) -> "BundleName":
        return cls(namespace, text_of(lower, upper))

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The lower and the upper boundary. Raises ValueError when the text is not a range."""
        parsed = parse_range(self.range)
        if parsed is None:
            raise ValueError(f"{self.range!r} is not the range of a bundle")
        return parsed

    def includes(self, topic_hash: int) -> bool:
        """Returns whether a topic with this hash belongs to the bundle. Only the last bundle of a namespace includes
        its upper boundary."""
        lower, upper = self.bounds
        return lower <= topic_hash < upper or topic_hash == upper == LAST

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"


def heartbeat_bundles(cluster: str, broker_id: str) -> tuple[BundleName, BundleName]:
    """Returns the bundles in which a broker has the topics for its health check. No other broker ever owns these
    bundles. The first bundle has a namespace name in the format of Pulsar 1 (NamespaceService.getHeartbeatNamespace,
    …V2)."""
    return BundleName(f"pulsar/{cluster}/{broker_id}", FULL), BundleName(f"pulsar/{broker_id}", FULL)


def sla_bundle(cluster: str, broker_id: str) -> BundleName:
    """Returns the bundle by which a service monitor may watch one broker (NamespaceService.getSLAMonitorNamespace)."""
    return BundleName(f"sla-monitor/{cluster}/{broker_id}", FULL)


def heartbeat_broker(namespace: str) -> str | None:
    """Returns the id of the only broker that may ever own this namespace, or None when the namespace is not a namespace
    for health checks (NamespaceService.checkHeartbeatNamespace, checkHeartbeatNamespaceV2)."""
    match = _HEARTBEAT.fullmatch(namespace)
    return match[1] if match is not None else None


def sla_broker(namespace: str) -> str | None:
    """Returns the id of the broker that owns this namespace as long as the broker is alive, or None when the namespace
    is not a namespace for a service monitor (NamespaceService.getSLAMonitorBrokerName)."""
    match = _SLA_MONITOR.fullmatch(namespace)
    return match[1] if match is not None else None
