"""Decides what isolation policies mean for a broker, and which namespaces have to move when a policy changes. This
module does no I/O.

Sources: ClustersBase.filterAndUnloadMatchedNamespaceAsync, NamespaceIsolationPolicyUnloadScope.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

ALL_MATCHING = "all_matching"
CHANGED = "changed"
UNLOAD_SCOPES = (ALL_MATCHING, "none", CHANGED)
"""The values of a policy's `unload_scope`. A policy without an `unload_scope` is treated as CHANGED."""

_BROKERS = ("primary", "secondary", "auto_failover_policy")


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Returns whether one of the patterns matches the whole name. A text that is not a regular expression matches
    nothing."""
    for pattern in patterns:
        try:
            if re.fullmatch(pattern, name):
                return True
        except re.error:
            continue
    return False


def isolation_of(namespace: str, host: str, policies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns whether an isolation policy controls a namespace (`is_controlled`), and whether the broker on `host` is a
    primary, secondary or shared broker of the namespace. The first policy that names the namespace counts
    (NamespaceService.getNamespaceOwnershipStatus)."""
    policy = next((each for each in policies.values() if matches(namespace, each.get("namespaces") or ())), None)
    assignment = "shared"
    if policy is not None and matches(host, policy.get("primary") or ()):
        assignment = "primary"
    elif policy is not None and matches(host, policy.get("secondary") or ()):
        assignment = "secondary"
    return {"broker_assignment": assignment, "is_controlled": policy is not None}


def moved_by_isolation(namespace: str, before: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Returns whether the bundles of a namespace are to be placed anew after a policy was changed from `before` to
    `policy`. For a new policy, `before` is empty."""
    scope = policy.get("unload_scope") or CHANGED
    is_in = matches(namespace, policy.get("namespaces") or ())
    was_in = matches(namespace, before.get("namespaces") or ())
    if scope == ALL_MATCHING:
        return is_in
    if scope != CHANGED:
        return False
    return is_in != was_in or (is_in and any(before.get(key) != policy.get(key) for key in _BROKERS))
