"""The policies of topics that are not limits. `topicPolicies` and `topics` have commands for each."""

from magnetar.server.tools.admin.body_rules import any_backlog_quota, enabled
from magnetar.server.tools.admin.command_table import SECONDS, Option
from magnetar.server.tools.admin.java_texts import show_backlog_quotas
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy
from magnetar.server.tools.admin.shared_policies import (
    DELAYED_DELIVERY_POLICY,
    INACTIVE_TOPIC_POLICIES,
    PERSISTENCE_POLICY,
    RETENTION_POLICY,
    SNAPSHOT_INTERVAL,
    SUBSCRIPTION_TYPES_ENABLED,
)
from magnetar.server.tools.admin.shared_policy_options import BACKLOG_QUOTA, BACKLOG_QUOTA_TYPE, ENABLE_DISABLE

_NOT_APPLIED = (("applied", "false"),)
DEDUPLICATION = Policy(
    "deduplication",
    "deduplicationEnabled",
    "whether messages that are sent twice are stored once",
    ENABLE_DISABLE,
    enabled,
    "--enable",
    get_query=_NOT_APPLIED,
)
BACKLOG_QUOTAS = Policy(
    "backlog-quota",
    "backlogQuota",
    "how large or old a backlog may become",
    BACKLOG_QUOTA,
    any_backlog_quota,
    "-l 10G -p producer_exception",
    APPLIED,
    set_query=(("backlogQuotaType", "{type}"),),
    remove_query=(("backlogQuotaType", "{type}"),),
    remove_options=BACKLOG_QUOTA_TYPE,
    get_action=show_backlog_quotas,
)
POLICIES = (
    Policy(
        "message-ttl",
        "messageTTL",
        "after how long messages count as acknowledged, in seconds",
        (Option("-t --ttl", "as 100m, 3h, 2d; 0 = never", SECONDS, required=True),),
        example="-t 3h",
        applied=APPLIED,
        set_query=(("messageTTL", "{ttl}"),),
        remove_query=(("messageTTL", "0"),),
    ),
    SUBSCRIPTION_TYPES_ENABLED,
    RETENTION_POLICY._replace(applied=APPLIED),
    DEDUPLICATION,
    SNAPSHOT_INTERVAL,
    PERSISTENCE_POLICY._replace(get_query=_NOT_APPLIED),
    DELAYED_DELIVERY_POLICY._replace(applied=APPLIED),
    INACTIVE_TOPIC_POLICIES._replace(applied=APPLIED),
)
"""The policies whose commands are the same in both groups."""
