"""Decides by the cluster's isolation policies which brokers may own the bundles of a namespace. Does no I/O.

Sources: LoadManagerShared.applyNamespacePolicies, SimpleResourceAllocationPolicies, NamespaceIsolationPolicies,
NamespaceIsolationPolicyImpl, MinAvailablePolicy.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from magnetar.server.load import json_fields as fields
from magnetar.server.load.broker_report import LocalBrokerData
from magnetar.server.load.json_fields import Json

PATTERNS_MAX = 4_096
"""How many compiled patterns are kept. The least recently used pattern is dropped, and compiled again when needed."""


@lru_cache(PATTERNS_MAX)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def matches(patterns: Iterable[str], text: str) -> bool:
    """Returns whether one of the patterns matches the whole text. An invalid pattern matches nothing."""
    return any((found := _compiled(each)) is not None and found.fullmatch(text) is not None for each in patterns)


def host_of(broker_id: str) -> str:
    """Returns the host in a broker's id, that is, the part before the port. The patterns are compared with this
    part."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else broker_id


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """One policy. The bundles of its namespaces belong on its primary brokers, and also on its secondary brokers when
    too few primary brokers are registered."""

    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...]
    min_limit: int
    """The number of primary brokers that have to be registered. With fewer, the secondary brokers are candidates,
    too."""

    @classmethod
    def of(cls, record: Json) -> "IsolationPolicy":
        parameters = fields.obj(fields.obj(record, "auto_failover_policy"), "parameters")
        limit = parameters.get("min_limit")
        try:
            min_limit = int(limit) if isinstance(limit, str | int) else 0
        except ValueError:
            min_limit = 0
        return cls(
            fields.texts(record, "namespaces"),
            fields.texts(record, "primary"),
            fields.texts(record, "secondary"),
            min_limit,
        )


@dataclass(frozen=True, slots=True)
class IsolationPolicies:
    """All policies of the cluster, in the order of their record."""

    policies: tuple[IsolationPolicy, ...] = ()

    @classmethod
    def read(cls, value: bytes) -> "IsolationPolicies":
        """Returns the policies in the cluster's record, or no policies when the record is not a JSON object."""
        record = fields.parse(value) or {}
        return cls(tuple(IsolationPolicy.of(each) for each in record.values() if isinstance(each, dict)))

    def of_namespace(self, namespace: str) -> IsolationPolicy | None:
        """Returns the policy of a namespace, which is the first policy that names it, or None when no policy does."""
        return next((each for each in self.policies if matches(each.namespaces, namespace)), None)

    def is_shared(self, host: str) -> bool:
        """Returns whether a broker is a primary broker of no policy. Only such brokers own namespaces that have no
        policy."""
        return not any(matches(each.primary, host) for each in self.policies)


def candidates(
    namespace: str,
    brokers: Mapping[str, LocalBrokerData],
    policies: IsolationPolicies,
    *,
    non_persistent: bool,
) -> set[str]:
    """Returns the brokers that may own a bundle of the namespace. `non_persistent` says that the bundle is known to
    have non-persistent topics only, so that a broker that serves no persistent topics is a candidate, too."""
    policy = policies.of_namespace(namespace)
    if policy is None:
        return {
            broker
            for broker, report in brokers.items()
            if (report.non_persistent_topics_enabled if non_persistent else report.persistent_topics_enabled)
            and policies.is_shared(host_of(broker))
        }
    primaries = {broker for broker in brokers if matches(policy.primary, host_of(broker))}
    if len(primaries) >= policy.min_limit:
        return primaries
    return primaries | {broker for broker in brokers if matches(policy.secondary, host_of(broker))}
