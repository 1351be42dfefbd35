"""The rows of `namespaces` about what is stored, for how long and where."""

from magnetar.server.tools.admin.body_rules import (
    auto_topic_creation,
    backlog_quota,
    enabled,
    without_missing,
)
from magnetar.server.tools.admin.command_table import (
    BYTES,
    INTEGER,
    NAMESPACE_ARGUMENT,
    SECONDS,
    Call,
    Command,
    Option,
    Values,
)
from magnetar.server.tools.admin.java_texts import show_backlog_quotas
from magnetar.server.tools.admin.namespace_steps import set_offload_threshold, show_offload_lag, show_offload_threshold
from magnetar.server.tools.admin.offload_options import OF_NAMESPACES
from magnetar.server.tools.admin.policy_rows import Policy, commands_of_policy
from magnetar.server.tools.admin.shared_policies import (
    AUTO_SUBSCRIPTION_CREATION,
    DELAYED_DELIVERY_POLICY,
    ENTRY_FILTERS,
    INACTIVE_TOPIC_POLICIES,
    OFFLOAD,
    PAUSE_ON_ACK_STATE,
    PERSISTENCE_POLICY,
    RETENTION_POLICY,
    SNAPSHOT_INTERVAL,
)
from magnetar.server.tools.admin.shared_policy_options import (
    BACKLOG_QUOTA,
    BACKLOG_QUOTA_TYPE,
    ENABLE_DISABLE,
)

_EXAMPLE = "my-tenant/my-namespace"
_ONE = (NAMESPACE_ARGUMENT,)


def _affinity(values: Values) -> dict[str, str]:
    return without_missing(
        {
            "bookkeeperAffinityGroupPrimary": values["primary-group"],
            "bookkeeperAffinityGroupSecondary": values["secondary-group"],
        }
    )


_POLICIES = (
    Policy(
        "backlog-quota",
        "backlogQuota",
        "how large or old a backlog may become",
        BACKLOG_QUOTA,
        backlog_quota,
        "-l 10G -p producer_exception",
        set_query=(("backlogQuotaType", "{type}"),),
        remove_query=(("backlogQuotaType", "{type}"),),
        remove_options=BACKLOG_QUOTA_TYPE,
        get_action=show_backlog_quotas,
        names=("get-backlog-quotas", "", ""),
    ),
    PERSISTENCE_POLICY,
    Policy(
        "message-ttl",
        "messageTTL",
        "after how long messages count as acknowledged, in seconds",
        (Option("-ttl --messageTTL", "as 100m, 3h, 2d; 0 = never", SECONDS, required=True),),
        "messageTTL",
        "-ttl 3h",
    ),
    Policy(
        "subscription-expiration-time",
        "subscriptionExpirationTime",
        "after how many minutes without a consumer a subscription is deleted",
        (Option("-t --time", "minutes; 0 = never", INTEGER, required=True),),
        "time",
        "-t 1440",
    ),
    Policy(
        "deduplication",
        "deduplication",
        "whether messages that are sent twice are stored once",
        ENABLE_DISABLE,
        enabled,
        "--enable",
    ),
    SNAPSHOT_INTERVAL._replace(remove_method="POST"),
    Policy(
        "auto-topic-creation",
        "autoTopicCreation",
        "whether using a topic creates it",
        (
            *ENABLE_DISABLE,
            Option("-t --type", "partitioned or non-partitioned", default="non-partitioned"),
            Option("-n --num-partitions", "how many partitions it gets", INTEGER),
        ),
        auto_topic_creation,
        "--enable -t partitioned -n 4",
    ),
    AUTO_SUBSCRIPTION_CREATION,
    RETENTION_POLICY,
    Policy(
        "bookie-affinity-group",
        "persistence/bookieAffinity",
        "the groups of bookies that store a namespace",
        (
            Option("-pg --primary-group", "the groups to use, comma separated", required=True),
            Option("-sg --secondary-group", "the groups to use else"),
        ),
        _affinity,
        "-pg my-group",
        names=("", "", "delete-bookie-affinity-group"),
    ),
    DELAYED_DELIVERY_POLICY,
    INACTIVE_TOPIC_POLICIES,
    Policy(
        "compaction-threshold",
        "compactionThreshold",
        "the size of a backlog at which topics are compacted",
        (Option("-t --threshold", "as 10M or 16G; 0 = never", BYTES, required=True),),
        "threshold",
        "-t 100M",
        set_method="PUT",
    ),
    OFFLOAD._replace(options=OF_NAMESPACES, verbs=("get", "set")),
    Policy(
        "offload-threshold",
        "offloadThreshold",
        "the size of topics and the age of ledgers from which is offloaded",
        verbs=("get",),
        get_action=show_offload_threshold,
    ),
    Policy(
        "offload-deletion-lag",
        "offloadDeletionLagMs",
        "how long an offloaded ledger stays in BookKeeper too",
        (Option("-l --lag", "as 10m, 5h, 3d; 0 = not at all", SECONDS, required=True),),
        lambda values: values["lag"] * 1_000,
        "-l 4h",
        get_action=show_offload_lag,
        set_method="PUT",
        names=("", "", "clear-offload-deletion-lag"),
    ),
    ENTRY_FILTERS,
    PAUSE_ON_ACK_STATE,
)
COMMANDS = (
    *(command for policy in _POLICIES for command in commands_of_policy(policy, NAMESPACE_ARGUMENT, _EXAMPLE)),
    Command(
        "set-offload-threshold",
        "Sets the size of topics and the age of ledgers from which is offloaded.",
        set_offload_threshold,
        _ONE,
        (
            Option(
                "-s --size", "offload when a topic is larger, as 10M; 0 = at once, -1 = never", BYTES, required=True
            ),
            Option("-t --time", "offload what is older, as 10m, 5h, 3d; -1 = never", SECONDS, default=-1),
        ),
        examples=(f"{_EXAMPLE} -s 10G",),
    ),
    Command(
        "remove-offload-policies",
        "Removes when and where ledgers are offloaded.",
        Call("DELETE", "{namespace}/removeOffloadPolicies"),
        _ONE,
        examples=(_EXAMPLE,),
    ),
)
