"""The table of all calls of the web port. Each resource has a module in this package, `*_calls.py`, with its own
`ROUTES`; each route says what its caller must be allowed to do."""

from importlib import import_module

from magnetar.server.web.calls import Route

CALL_MODULES = (
    "ack_map_calls",
    "backup_calls",
    "bookie_calls",
    "bookie_affinity_calls",
    "bookie_state_calls",
    "broker_calls",
    "broker_stats_calls",
    "browse_calls",
    "bundle_calls",
    "bundle_move_calls",
    "cluster_calls",
    "compaction_calls",
    "console_calls",
    "delayed_calls",
    "fault_calls",
    "front_page_calls",
    "isolation_calls",
    "late_calls",
    "ledger_calls",
    "live_calls",
    "log_level_calls",
    "lookup_calls",
    "message_calls",
    "migration_calls",
    "namespace_calls",
    "namespace_policy_calls",
    "namespace_subscription_calls",
    "offload_calls",
    "partition_calls",
    "pending_ack_calls",
    "permission_calls",
    "policy_source_calls",
    "resource_group_calls",
    "resource_quota_calls",
    "schema_calls",
    "shadow_topic_calls",
    "subscription_calls",
    "subscription_position_calls",
    "tenant_calls",
    "topic_calls",
    "topic_policy_calls",
    "topic_stats_calls",
    "topic_table_calls",
    "transaction_buffer_calls",
    "transaction_calls",
)

ROUTES: tuple[Route, ...] = tuple(
    route for name in CALL_MODULES for route in import_module(f"{__package__}.{name}").ROUTES
)
