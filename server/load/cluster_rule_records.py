"""Reads the rules of operators for the placement of bundles: isolation policies, failure domains, and anti-affinity
groups.

The records are cached and watched. The anti-affinity group of a namespace is in its local policies. The groups of other
namespaces are read only when a namespace that is in a group is placed. Sources:
NamespaceResources.IsolationPolicyResources, ClusterResources.FailureDomainResources, LocalPoliciesResources.
"""

import asyncio
from collections.abc import Callable

from magnetar.metadata import paths
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent
from magnetar.server.load import json_fields as fields
from magnetar.server.load.isolation_rules import IsolationPolicies
from magnetar.server.load.placement_rules import ClusterRules

READS_AT_ONCE = 32


class ClusterRuleRecords:
    """The cached rules. One object serves the process. All calls are made on the loop's thread."""

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._isolation_path = f"{paths.cluster_path(cluster)}/namespaceIsolationPolicies"
        self._domains_path = f"{paths.cluster_path(cluster)}/failureDomain"
        self._isolation = RecordCache(store, self._isolation_path, lambda _, value: IsolationPolicies.read(value))
        self._groups = RecordCache(store, paths.LOCAL_POLICIES, lambda _, value: _group_in(value))
        self._domains: dict[str, str] | None = None
        """The failure domain of each broker, or None when the records have to be read."""
        self._domain_changes = 0
        self._cancel_watch: CancelWatch | None = None

    def start(self) -> None:
        self._isolation.start()
        self._groups.start()
        self._cancel_watch = self._store.watch(self._domains_path, self._domains_changed, recursive=True)

    def close(self) -> None:
        self._isolation.close()
        self._groups.close()
        if self._cancel_watch is not None:
            self._cancel_watch()
            self._cancel_watch = None

    async def rules_for(self, namespace: str, others: Callable[[], set[str]], *, domains: bool) -> ClusterRules:
        """Returns the rules for placing a bundle of the namespace. `others` returns the namespaces that brokers serve.
        `others` is called, and the groups of these namespaces are read, only if `namespace` is in a group. Failure
        domains are read only if `domains` is True. Raises MetadataError when the store fails."""
        isolation = await self._isolation.get(self._isolation_path)
        policies = IsolationPolicies() if isolation is None else isolation.value
        group = await self.group_of(namespace)
        if not group:
            return ClusterRules(policies)
        groups = {namespace: group}
        limit = asyncio.Semaphore(READS_AT_ONCE)

        async def add(other: str) -> None:
            async with limit:
                groups[other] = await self.group_of(other)

        await asyncio.gather(*map(add, others() - {namespace}))
        found = {each: name for each, name in groups.items() if name}
        return ClusterRules(policies, await self._read_domains() if domains else {}, found)

    async def group_of(self, namespace: str) -> str:
        """Returns the anti-affinity group of a namespace, or an empty text when the namespace is in no group. Raises
        MetadataError when the store fails."""
        found = await self._groups.get(paths.local_policies_path(namespace))
        return "" if found is None else found.value

    async def _read_domains(self) -> dict[str, str]:
        if self._domains is not None:
            return self._domains
        changes = self._domain_changes
        domains: dict[str, str] = {}
        try:
            names = await self._store.children(self._domains_path)
        except NoNodeError:
            names = []
        for name in names:
            record = await self._store.get(f"{self._domains_path}/{name}")
            for broker in fields.texts(fields.parse(record.value) or {}, "brokers") if record is not None else ():
                domains[broker] = name
        if changes == self._domain_changes and self._cancel_watch is not None:
            self._domains = domains
        return domains

    def _domains_changed(self, event: RecordEvent) -> None:
        self._domains = None
        self._domain_changes += 1


def _group_in(value: bytes) -> str:
    return fields.text(fields.parse(value) or {}, "namespaceAntiAffinityGroup").strip()
