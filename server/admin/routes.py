"""The table of all calls of the web port. Each resource is a module of this package with its own `ROUTES`, and each
route says what its caller must be allowed to do."""

from importlib import import_module

from magnetar.server.web.calls import Route

RESOURCES = (
    "bookie_affinity",
    "bookies",
    "broker_stats",
    "brokers",
    "bundles",
    "clusters",
    "compaction",
    "isolation",
    "lookup",
    "messages",
    "migration",
    "namespace_policies",
    "namespaces",
    "offload",
    "partitions",
    "permissions",
    "resource_groups",
    "resource_quotas",
    "schemas",
    "shadow_topics",
    "subscriptions",
    "tenants",
    "topic_policies",
    "topic_stats",
    "topics",
)

ROUTES: tuple[Route, ...] = tuple(
    route for name in RESOURCES for route in import_module(f"{__package__}.{name}").ROUTES
)
