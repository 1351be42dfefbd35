"""`topicPolicies …-subscription-dispatch-rate`, whose path depends on whether one subscription is named."""

from magnetar.server.tools.admin.body_rules import dispatch_rate
from magnetar.server.tools.admin.command_table import PERSISTENT_TOPIC_ARGUMENT, VALUE, Call, Command, Option, Query
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.policy_rows import APPLIED, GLOBAL
from magnetar.server.tools.admin.shared_policy_options import DISPATCH_RATE

_SUBSCRIPTION = Option("-s --subscription", "only this subscription")
_GLOBAL: Query = (("isGlobal", "{global}"),)


def _path(invocation: Invocation) -> str:
    return (
        "{topic}/subscriptionDispatchRate"
        if invocation["subscription"] is None
        else "{topic}/{subscription}/dispatchRate"
    )


def _show(invocation: Invocation) -> None:
    invocation.show(invocation.get(_path(invocation), (*_GLOBAL, ("applied", "{applied}"))), VALUE)


def _set(invocation: Invocation) -> None:
    invocation.call(Call("POST", _path(invocation), _GLOBAL, dispatch_rate))


def _remove(invocation: Invocation) -> None:
    invocation.call(Call("DELETE", _path(invocation), _GLOBAL))


SUBSCRIPTION_RATE_COMMANDS = (
    Command(
        "get-subscription-dispatch-rate",
        "Shows how fast messages are delivered to subscriptions.",
        _show,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (APPLIED, GLOBAL, _SUBSCRIPTION),
        VALUE,
        examples=("my-topic", "my-topic -s my-subscription"),
    ),
    Command(
        "set-subscription-dispatch-rate",
        "Sets how fast messages are delivered to subscriptions.",
        _set,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (*DISPATCH_RATE, GLOBAL, _SUBSCRIPTION),
        examples=("my-topic -md 1000 -dt 1", "my-topic -s my-subscription -md 1000"),
    ),
    Command(
        "remove-subscription-dispatch-rate",
        "Removes how fast messages are delivered to subscriptions.",
        _remove,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (GLOBAL, _SUBSCRIPTION),
        examples=("my-topic",),
    ),
)
