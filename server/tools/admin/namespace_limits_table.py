"""The rows of `namespaces` that limit numbers and rates."""

from magnetar.server.tools.admin.command_table import INTEGER, NAMESPACE_ARGUMENT, NOTHING, RAW, Call, Command, Option
from magnetar.server.tools.admin.policy_rows import Policy, commands_of_policy
from magnetar.server.tools.admin.shared_policies import (
    DISPATCH_RATE_POLICY,
    PUBLISH_RATE_POLICY,
    REPLICATOR_DISPATCH_RATE,
    SUBSCRIBE_RATE_POLICY,
    SUBSCRIPTION_DISPATCH_RATE,
)
from magnetar.server.tools.admin.shared_policy_options import DISPATCH_RATE_OF_NAMESPACE_REPLICATOR

_EXAMPLE = "my-tenant/my-namespace"


def _number(name: str, path: str, what: str, options: str, key: str, example: str) -> Policy:
    return Policy(
        name,
        path,
        what,
        (Option(options, "how many; 0 = any number", INTEGER, required=True),),
        key,
        example,
    )


_NUMBERS = (
    _number(
        "max-producers-per-topic",
        "maxProducersPerTopic",
        "how many producers a topic may have",
        "-p --max-producers-per-topic",
        "max-producers-per-topic",
        "-p 10",
    ),
    _number(
        "max-consumers-per-topic",
        "maxConsumersPerTopic",
        "how many consumers a topic may have",
        "-c --max-consumers-per-topic",
        "max-consumers-per-topic",
        "-c 10",
    ),
    _number(
        "max-consumers-per-subscription",
        "maxConsumersPerSubscription",
        "how many consumers a subscription may have",
        "-c --max-consumers-per-subscription",
        "max-consumers-per-subscription",
        "-c 10",
    ),
    _number(
        "max-unacked-messages-per-subscription",
        "maxUnackedMessagesPerSubscription",
        "how many messages a subscription may have delivered that are not acknowledged",
        "-c --max-unacked-messages-per-subscription",
        "max-unacked-messages-per-subscription",
        "-c 10000",
    ),
    _number(
        "max-unacked-messages-per-consumer",
        "maxUnackedMessagesPerConsumer",
        "how many messages a consumer may have without acknowledging them",
        "-c --max-unacked-messages-per-topic",
        "max-unacked-messages-per-topic",
        "-c 1000",
    ),
    _number(
        "max-subscriptions-per-topic",
        "maxSubscriptionsPerTopic",
        "how many subscriptions a topic may have",
        "-m --max-subscriptions-per-topic",
        "max-subscriptions-per-topic",
        "-m 100",
    ),
    _number(
        "max-topics-per-namespace",
        "maxTopicsPerNamespace",
        "how many topics a namespace may have",
        "-t --max-topics-per-namespace",
        "max-topics-per-namespace",
        "-t 1000",
    ),
)
_RATES = (
    DISPATCH_RATE_POLICY,
    SUBSCRIPTION_DISPATCH_RATE,
    REPLICATOR_DISPATCH_RATE._replace(options=DISPATCH_RATE_OF_NAMESPACE_REPLICATOR),
    PUBLISH_RATE_POLICY,
    SUBSCRIBE_RATE_POLICY,
)
_ONE = (NAMESPACE_ARGUMENT,)
COMMANDS = (
    *(
        command
        for policy in (*_NUMBERS, *_RATES)
        for command in commands_of_policy(policy, NAMESPACE_ARGUMENT, _EXAMPLE)
    ),
    Command(
        "get-resource-group",
        "Shows the resource group of a namespace.",
        Call("GET", "{namespace}/resourcegroup"),
        _ONE,
        output=RAW,
        examples=(_EXAMPLE,),
    ),
    Command(
        "set-resource-group",
        "Puts a namespace into a resource group.",
        Call("POST", "{namespace}/resourcegroup/{resource-group-name}"),
        _ONE,
        (Option("-rgn --resource-group-name", "the group", required=True),),
        NOTHING,
        examples=(f"{_EXAMPLE} -rgn my-group",),
    ),
    Command(
        "remove-resource-group",
        "Takes a namespace out of its resource group.",
        Call("DELETE", "{namespace}/resourcegroup"),
        _ONE,
        examples=(_EXAMPLE,),
    ),
)
