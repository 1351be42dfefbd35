"""The groups of commands, and where the rows of each are."""

from collections.abc import Iterator
from importlib import import_module

from magnetar.server.tools.admin.command_table import Command, Group

GROUPS = (
    Group("clusters", "clusters, peers, failure domains", ("clusters_table",), ("cluster",)),
    Group("ns-isolation-policy", "which brokers serve which namespaces", ("isolation_table",)),
    Group("brokers", "brokers and their configuration", ("brokers_table",), ("broker",)),
    Group("broker-stats", "statistics of a broker", ("broker_stats_table",)),
    Group("tenants", "tenants", ("tenants_table",), ("tenant",)),
    Group("resourcegroups", "limits that namespaces share", ("resource_groups_table",), ("resourcegroup",)),
    Group("properties", "the old name of tenants", ("tenants_table",), hidden=True),
    Group(
        "namespaces",
        "namespaces, their policies and permissions",
        (
            "namespaces_table",
            "namespace_access_table",
            "namespace_limits_table",
            "namespace_storage_table",
            "namespace_schema_table",
        ),
        ("namespace",),
    ),
    Group(
        "topics",
        "topics, their subscriptions and messages",
        (
            "topics_table",
            "topic_subscriptions_table",
            "topic_messages_table",
            "topic_storage_table",
            "topics_policies_table",
            "topics_limits_table",
        ),
        ("topic",),
    ),
    Group(
        "topicPolicies", "policies of one topic", ("topic_policies_table", "topic_limits_table"), ("topic-policies",)
    ),
    Group(
        "subscriptions", "subscriptions by pulsarctl's names", ("subscriptions_table",), ("subscription", "subs", "sub")
    ),
    Group("schemas", "schemas of topics", ("schemas_table",), ("schema",)),
    Group("bookies", "racks of bookies", ("bookies_table",), ("bookie",)),
    Group("persistent", "the old name of topics", ("persistent_table",), hidden=True),
    Group("non-persistent", "the old name of topics that are not stored", ("non_persistent_table",), hidden=True),
    Group("resource-quotas", "quotas of bundles", ("resource_quotas_table",), ("resource-quota",)),
    Group("proxy-stats", "statistics of a Pulsar proxy", ("proxy_stats_table",)),
    Group("functions", "Pulsar Functions", ("functions_table",), ("function", "pf")),
    Group("functions-worker", "workers of Pulsar Functions", ("functions_worker_table",)),
    Group("sources", "connectors that read into Pulsar", ("sources_table",), ("source",)),
    Group("sinks", "connectors that write from Pulsar", ("sinks_table",), ("sink",)),
    Group("packages", "packages of functions and connectors", ("packages_table",), ("package",)),
    Group("transactions", "transactions", ("transactions_table",), ("transaction",)),
    Group("documents", "pages of this help", ("documents_table",)),
    Group("context", "named connections", ("context_table",), ("contexts", "ctx")),
    Group("completion", "completion for a shell", ("completion_table",)),
)


def find_group(name: str) -> Group | None:
    return next((group for group in GROUPS if name == group.name or name in group.aliases), None)


def commands_of(group: Group) -> Iterator[Command]:
    """Yields the rows of a group. Only the tables of this group are imported, each when its turn comes."""
    for table in group.tables:
        yield from import_module(f"magnetar.server.tools.admin.{table}").COMMANDS


def find_command(group: Group, name: str) -> Command | None:
    return next((command for command in commands_of(group) if name == command.name or name in command.aliases), None)
