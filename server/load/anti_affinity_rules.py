"""Keeps the namespaces of an anti-affinity group apart. Does no I/O.

Namespaces of one group shall not fail together, so they are placed in different failure domains, and within a domain on
different brokers. Sources: LoadManagerShared.filterAntiAffinityGroupOwnedBrokers,
filterDomainsNotHavingLeastNumberAntiAffinityNamespaces, shouldAntiAffinityNamespaceUnload.
"""

from collections import Counter
from collections.abc import Collection, Mapping

DEFAULT_DOMAIN = "default"
"""The failure domain of brokers for which no domain is configured."""

Counts = Mapping[str, int]
"""How many namespaces of the group each broker serves. A broker that serves no namespace of the group may be
missing."""


def namespaces_by_broker(served: Mapping[str, Collection[str]], group: str, groups: Mapping[str, str]) -> Counts:
    """Counts the namespaces of a group that each broker serves. `groups` has the group of each namespace that has one;
    groups are compared without regard to case."""
    wanted = group.lower()
    return {
        broker: sum(groups.get(namespace, "").lower() == wanted for namespace in namespaces)
        for broker, namespaces in served.items()
    }


def least_serving(candidates: set[str], counts: Counts, domains: Mapping[str, str] | None) -> set[str]:
    """Selects the candidates in the failure domains with the fewest namespaces of the group. Returns those of the
    selected candidates that serve the fewest namespaces of the group. `domains` has the domain of each broker, and is
    None when failure domains are off."""
    left = candidates
    if domains:
        by_domain: Counter[str] = Counter()
        for broker in left:
            by_domain[domains.get(broker, DEFAULT_DOMAIN)] += counts.get(broker, 0)
        least = min(by_domain.values(), default=0)
        left = {broker for broker in left if by_domain[domains.get(broker, DEFAULT_DOMAIN)] == least}
    least = min((counts.get(broker, 0) for broker in left), default=0)
    return {broker for broker in left if counts.get(broker, 0) == least}


def may_unload(broker: str, candidates: set[str], counts: Counts) -> bool:
    """Returns whether a namespace of the group may be moved away from a broker. Returns False when all candidates serve
    equally many namespaces of the group, because the namespace would then come back."""
    if not any(counts.values()):
        return True
    least = min((counts.get(each, 0) for each in candidates), default=0)
    own = counts.get(broker, 0) if broker in candidates else 0
    if least == 0 or own > least:
        return True
    return any(counts.get(each, 0) != least for each in candidates)
