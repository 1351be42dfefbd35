"""The rows of `topics` for limits, which are older names of those of `topicPolicies` and hidden in lists."""

from magnetar.server.tools.admin.command_table import INTEGER, PERSISTENT_TOPIC_ARGUMENT, Option
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy, commands_of_policy
from magnetar.server.tools.admin.shared_policies import SUBSCRIPTION_DISPATCH_RATE
from magnetar.server.tools.admin.topic_limit_rows import (
    LIMITS,
    MAX_PRODUCERS,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
)

_OTHER_NAMES = (
    UNACKED_PER_CONSUMER._replace(name="max-unacked-messages-on-consumer"),
    UNACKED_PER_SUBSCRIPTION._replace(name="max-unacked-messages-on-subscription"),
    MAX_PRODUCERS._replace(name="maxProducers"),
    SUBSCRIPTION_DISPATCH_RATE._replace(applied=APPLIED),
    Policy(
        "max-subscriptions",
        "maxSubscriptionsPerTopic",
        "how many subscriptions a topic may have",
        (Option("-m --max-subscriptions-per-topic", "how many; 0 = any number", INTEGER, required=True),),
        "max-subscriptions-per-topic",
        "-m 100",
    ),
)
COMMANDS = tuple(
    command
    for policy in (*LIMITS, *_OTHER_NAMES)
    for command in commands_of_policy(policy, PERSISTENT_TOPIC_ARGUMENT, "my-topic", hidden=True)
)
