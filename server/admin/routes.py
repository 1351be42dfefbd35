"""All calls of the web port. A resource is a module with `ROUTES`; each route says what it needs."""

from server.admin import (
    bookies,
    broker_stats,
    brokers,
    bundles,
    clusters,
    compaction,
    isolation,
    lookup,
    messages,
    namespace_policies,
    namespaces,
    offload,
    partitions,
    permissions,
    resource_quotas,
    schemas,
    subscriptions,
    tenants,
    topic_policies,
    topic_stats,
    topics,
)
from server.web.calls import Route

RESOURCES = (
    bookies,
    broker_stats,
    brokers,
    bundles,
    clusters,
    compaction,
    isolation,
    lookup,
    messages,
    namespace_policies,
    namespaces,
    offload,
    partitions,
    permissions,
    resource_quotas,
    schemas,
    subscriptions,
    tenants,
    topic_policies,
    topic_stats,
    topics,
)

ROUTES: tuple[Route, ...] = tuple(route for resource in RESOURCES for route in resource.ROUTES)
