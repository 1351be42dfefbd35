"""The rows of `topicPolicies` that limit numbers and rates."""

from magnetar.server.tools.admin.command_table import INTEGER, PERSISTENT_TOPIC_ARGUMENT, Option
from magnetar.server.tools.admin.policy_rows import Policy, commands_of_policy
from magnetar.server.tools.admin.subscription_rates import SUBSCRIPTION_RATE_COMMANDS
from magnetar.server.tools.admin.topic_limit_rows import LIMITS

_ONLY_HERE = (
    Policy(
        "max-subscriptions-per-topic",
        "maxSubscriptionsPerTopic",
        "how many subscriptions a topic may have",
        (Option("-s --max-subscriptions-per-topic", "how many; 0 = any number", INTEGER, required=True),),
        "max-subscriptions-per-topic",
        "-s 100",
    ),
)
COMMANDS = (
    *SUBSCRIPTION_RATE_COMMANDS,
    *(
        command
        for policy in (*LIMITS, *_ONLY_HERE)
        for command in commands_of_policy(policy, PERSISTENT_TOPIC_ARGUMENT, "my-topic", everywhere=True)
    ),
)
