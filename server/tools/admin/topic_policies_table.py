"""The rows of `topicPolicies` but for those of limits (`topic_limits_table.py`)."""

from magnetar.server.tools.admin.body_rules import auto_subscription_creation, backlog_quota, entry_filters
from magnetar.server.tools.admin.command_table import FLAG, PERSISTENT_TOPIC_ARGUMENT, Option
from magnetar.server.tools.admin.offload_options import OF_TOPIC_POLICIES
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy, commands_of_policy
from magnetar.server.tools.admin.schema_strategies import SCHEMA_STRATEGIES
from magnetar.server.tools.admin.topic_policy_rows import BACKLOG_QUOTAS, OFFLOAD, POLICIES

_SHORT_APPLIED = APPLIED._replace(names="-a --applied")
_ONLY_HERE = (
    BACKLOG_QUOTAS._replace(body=backlog_quota),
    OFFLOAD._replace(options=OF_TOPIC_POLICIES),
    Policy(
        "entry-filters-per-topic",
        "entryFilters",
        "which entry filters decide about delivery",
        (Option("-efn --entry-filters-name", "names of filters, comma separated", required=True),),
        entry_filters,
        "-efn my-filter",
        APPLIED,
    ),
    Policy(
        "auto-subscription-creation",
        "autoSubscriptionCreation",
        "whether subscribing creates a subscription",
        (Option("-e --enable", "let it; without this option it does not", FLAG),),
        auto_subscription_creation,
        "--enable",
        _SHORT_APPLIED,
    ),
    Policy(
        "dispatcher-pause-on-ack-state-persistent",
        "dispatcherPauseOnAckStatePersistent",
        "whether delivery waits while the state of acknowledgements cannot be stored",
        applied=_SHORT_APPLIED,
    ),
)
_SCHEMA_STRATEGY = Policy(
    "schema-compatibility-strategy",
    "schemaCompatibilityStrategy",
    "how a new schema must fit the earlier ones",
    (Option("-s --strategy", "one of " + ", ".join(SCHEMA_STRATEGIES), required=True, choices=SCHEMA_STRATEGIES),),
    "strategy",
    "-s BACKWARD",
    APPLIED,
    set_method="PUT",
)
COMMANDS = (
    *(
        command
        for policy in (*POLICIES, *_ONLY_HERE)
        for command in commands_of_policy(policy, PERSISTENT_TOPIC_ARGUMENT, "my-topic", everywhere=True)
    ),
    *commands_of_policy(_SCHEMA_STRATEGY, PERSISTENT_TOPIC_ARGUMENT, "my-topic"),
)
