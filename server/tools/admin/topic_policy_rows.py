"""The policies of topics that are not limits. `topicPolicies` and `topics` have commands for each."""

from magnetar.server.tools.admin.body_rules import (
    any_backlog_quota,
    delayed_delivery,
    enabled,
    inactive_topics,
    persistence,
    retention,
    subscription_types,
)
from magnetar.server.tools.admin.command_table import COMMAS, INTEGER, SECONDS, Option
from magnetar.server.tools.admin.field_orders import OFFLOAD_POLICIES
from magnetar.server.tools.admin.java_texts import show_backlog_quotas
from magnetar.server.tools.admin.offload_body import offload_policies
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy
from magnetar.server.tools.admin.shared_policy_options import (
    BACKLOG_QUOTA,
    BACKLOG_QUOTA_TYPE,
    DELAYED_DELIVERY,
    ENABLE_DISABLE,
    INACTIVE_TOPICS,
    PERSISTENCE,
    RETENTION,
    SUBSCRIPTION_TYPES,
)

MESSAGE_TTL = Policy(
    "message-ttl",
    "messageTTL",
    "after how long messages count as acknowledged, in seconds",
    (Option("-t --ttl", "as 100m, 3h, 2d; 0 = never", SECONDS, required=True),),
    example="-t 3h",
    applied=APPLIED,
    set_query=(("messageTTL", "{ttl}"),),
    remove_query=(("messageTTL", "0"),),
)
SNAPSHOT_INTERVAL = Policy(
    "deduplication-snapshot-interval",
    "deduplicationSnapshotInterval",
    "how often the state of deduplication is stored, in seconds",
    (Option("-i --interval", "seconds", INTEGER, required=True),),
    "interval",
    "-i 120",
)
DEDUPLICATION = Policy(
    "deduplication",
    "deduplicationEnabled",
    "whether messages that are sent twice are stored once",
    ENABLE_DISABLE,
    enabled,
    "--enable",
    get_query=(("applied", "false"),),
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
OFFLOAD = Policy(
    "offload-policies",
    "offloadPolicies",
    "when and where ledgers are offloaded",
    (),
    offload_policies,
    "-d aws-s3 -r eu-west-1 -b bucket",
    APPLIED,
    order=OFFLOAD_POLICIES,
)
POLICIES = (
    MESSAGE_TTL,
    Policy(
        "subscription-types-enabled",
        "subscriptionTypesEnabled",
        "which types of subscriptions may be used",
        (Option("-t --types", f"comma separated: {SUBSCRIPTION_TYPES}", COMMAS, required=True),),
        subscription_types,
        "-t Shared,Failover",
    ),
    Policy(
        "retention",
        "retention",
        "how long and how many acknowledged messages are kept",
        RETENTION,
        retention,
        "-t 3h -s 10G",
        APPLIED,
    ),
    DEDUPLICATION,
    SNAPSHOT_INTERVAL,
    Policy(
        "persistence",
        "persistence",
        "how many copies of messages are stored",
        PERSISTENCE,
        persistence,
        "-e 3 -w 3 -a 2",
        get_query=(("applied", "false"),),
    ),
    Policy(
        "delayed-delivery",
        "delayedDelivery",
        "whether messages may be delayed",
        DELAYED_DELIVERY,
        delayed_delivery,
        "--enable -t 1s",
        APPLIED,
    ),
    Policy(
        "inactive-topic-policies",
        "inactiveTopicPolicies",
        "when topics that nobody uses are deleted",
        INACTIVE_TOPICS,
        inactive_topics,
        "-e -t 7d -m delete_when_no_subscriptions",
        APPLIED,
    ),
)
"""The policies whose commands are the same in both groups."""
