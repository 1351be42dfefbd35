"""Decides which records, other than those of ledgers, are left over from namespaces, tenants, brokers and ledgers that
are gone.

Apache's brokers and bookies leave such records behind when a deletion is interrupted or a process dies. Ephemeral
records are never left over. Records that hold topics or schemas are not called removable, even if their namespace is
gone: without them the ledgers of these topics could not be found any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SYSTEM_TENANT = "pulsar"
NAMESPACE_ROOTS = {
    "/namespace": "owners of bundles",
    "/managed-ledgers": "topics",
    "/schemas": "schemas",
    "/admin/local-policies": "local policies",
    "/admin/partitioned-topics": "partitioned topics",
    "/loadbalance/bundle-data": "loads of bundles",
    "/loadbalance/resource-quota/namespace": "resource quotas",
}
"""Where a namespace has records besides its policies, at `{root}/{tenant}/{namespace}`."""
ROOTS_WITH_DATA = ("/managed-ledgers", "/schemas")
"""Records with a value below these roots name ledgers."""


@dataclass(frozen=True, slots=True)
class Node:
    """A record of a tree, without its value."""

    path: str
    version: int
    modified_ms: int
    ephemeral: bool
    has_value: bool


@dataclass(frozen=True, slots=True)
class Leftover:
    """A record that nothing needs, with all records below it."""

    store: str
    """The name of the metadata store; empty for the store of the ledgers."""
    path: str
    reason: str
    nodes: tuple[Node, ...]
    """The record and those below it; parents come before their children."""
    removable: bool = True


@dataclass(frozen=True, slots=True)
class Known:
    """The tenants and namespaces that have policies, and the brokers that are registered."""

    tenants: frozenset[str]
    namespaces: frozenset[str]
    brokers: frozenset[str]


def leftover_namespaces(
    store: str, root: str, trees: Mapping[str, list[Node]], known: Known, before_ms: int
) -> list[Leftover]:
    """Returns the leftovers below one of NAMESPACE_ROOTS. `trees` has, for each "tenant/namespace" and for each tenant
    without namespaces, the records of that tree. A tree with a record that was written after `before_ms` is left
    alone."""
    found = []
    for name, nodes in sorted(trees.items()):
        tenant = name.split("/")[0]
        if tenant == SYSTEM_TENANT or (name in known.namespaces if "/" in name else tenant in known.tenants):
            continue
        if any(node.ephemeral or node.modified_ms > before_ms for node in nodes):
            continue
        what = f"namespace {name} is gone" if "/" in name else f"tenant {tenant} is gone"
        holds = root in ROOTS_WITH_DATA and any(node.has_value for node in nodes)
        reason = f"{NAMESPACE_ROOTS[root]}: {what}" + (", but records of ledgers are below" if holds else "")
        found.append(Leftover(store, f"{root}/{name}", reason, tuple(nodes), removable=not holds))
    return found


def leftover_tenants(store: str, nodes: list[Node], known: Known, before_ms: int) -> list[Leftover]:
    """Returns the records of tenants in `/admin/policies` that are empty and have no namespace below them."""
    with_namespaces = {name.split("/")[0] for name in known.namespaces}
    return [
        Leftover(store, node.path, "tenant without data and namespaces", (node,))
        for node in nodes
        if not node.has_value
        and not node.ephemeral
        and node.modified_ms <= before_ms
        and node.path.rpartition("/")[2] not in (*with_namespaces, SYSTEM_TENANT)
    ]


def leftover_brokers(store: str, nodes: list[Node], known: Known, before_ms: int) -> list[Leftover]:
    """Returns the averages of brokers that are not registered (`/loadbalance/broker-time-average`)."""
    return [
        Leftover(store, node.path, "averages of a broker that is not registered", (node,))
        for node in nodes
        if node.path.rpartition("/")[2] not in known.brokers and not node.ephemeral and node.modified_ms <= before_ms
    ]


def leftover_marks(marks: Mapping[int, Node], listed: set[int], before_ms: int) -> list[Leftover]:
    """Returns the marks of under-replicated ledgers that are not there."""
    return [
        Leftover("", node.path, f"mark of ledger {ledger_id}, which is gone", (node,))
        for ledger_id, node in sorted(marks.items())
        if ledger_id not in listed and node.modified_ms <= before_ms
    ]


def leftover_parents(nodes: list[Node], children: Mapping[str, int], before_ms: int) -> list[Leftover]:
    """Returns the parents of ledgers' records that have no children. `children` has the number of each parent's."""
    return [
        Leftover("", node.path, "parent of ledgers, without ledgers", (node,))
        for node in nodes
        if not children[node.path] and not node.has_value and node.modified_ms <= before_ms
    ]
