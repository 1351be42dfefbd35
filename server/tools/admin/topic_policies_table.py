"""The rows of `topicPolicies` but for those of limits (`topic_limits_table.py`)."""

from magnetar.server.tools.admin.body_rules import backlog_quota
from magnetar.server.tools.admin.command_table import PERSISTENT_TOPIC_ARGUMENT, Option
from magnetar.server.tools.admin.offload_options import OF_TOPIC_POLICIES
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy, commands_of_policy
from magnetar.server.tools.admin.schema_strategies import SCHEMA_STRATEGIES
from magnetar.server.tools.admin.shared_policies import (
    AUTO_SUBSCRIPTION_CREATION,
    ENTRY_FILTERS,
    OFFLOAD,
    PAUSE_ON_ACK_STATE,
)
from magnetar.server.tools.admin.topic_policy_rows import BACKLOG_QUOTAS, POLICIES

_SHORT_APPLIED = APPLIED._replace(names="-a --applied")
_ONLY_HERE = (
    BACKLOG_QUOTAS._replace(body=backlog_quota),
    OFFLOAD._replace(options=OF_TOPIC_POLICIES, applied=APPLIED),
    ENTRY_FILTERS._replace(name="entry-filters-per-topic", applied=APPLIED),
    AUTO_SUBSCRIPTION_CREATION._replace(applied=_SHORT_APPLIED),
    PAUSE_ON_ACK_STATE._replace(applied=_SHORT_APPLIED),
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
