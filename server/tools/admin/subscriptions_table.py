"""The rows of `subscriptions`, a group of pulsarctl's that pulsar-admin does not have."""

from magnetar.server.tools.admin.command_table import (
    FLAG,
    INTEGER,
    LINES,
    LONG,
    MILLIS,
    PERSISTENT_TOPIC_ARGUMENT,
    SECONDS,
    TOPIC_ARGUMENT,
    VALUE,
    Argument,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.message_steps import get_message_by_id, peek_messages
from magnetar.server.tools.admin.subscription_steps import create_subscription, expire_messages, reset_cursor
from magnetar.server.tools.admin.topic_messages_table import LEDGER_AND_ENTRY

_SUBSCRIPTION = Argument("subscription", "the subscription's name")
_BOTH = (TOPIC_ARGUMENT, _SUBSCRIPTION)
_PERSISTENT = (PERSISTENT_TOPIC_ARGUMENT, _SUBSCRIPTION)
_BASE = "{topic}/subscription/{subscription}"
_EXAMPLE = "my-topic my-subscription"


def _create(invocation: Invocation) -> None:
    invocation.values["property"] = None
    create_subscription(invocation)


def _expire(invocation: Invocation) -> None:
    if invocation["all"]:
        invocation.call(Call("POST", "{topic}/all_subscription/expireMessages/{expireTime}"))
        return
    invocation.values |= {"position": None}
    expire_messages(invocation)


def _skip(invocation: Invocation) -> None:
    if invocation["all"]:
        invocation.call(Call("POST", _BASE + "/skip_all"))
    else:
        invocation.call(Call("POST", _BASE + "/skip/{count}"))


COMMANDS = (
    Command(
        "list",
        "Lists the subscriptions of a topic.",
        Call("GET", "{topic}/subscriptions"),
        (TOPIC_ARGUMENT,),
        output=LINES,
        examples=("my-topic",),
    ),
    Command(
        "create",
        "Creates a subscription.",
        _create,
        _BOTH,
        (Option("-m --messageId", "latest, earliest, or ledgerId:entryId", default="latest"),),
        examples=(_EXAMPLE, f"{_EXAMPLE} -m earliest"),
    ),
    Command(
        "delete",
        "Deletes a subscription.",
        Call("DELETE", _BASE, (("force", "{force}"),)),
        _BOTH,
        (Option("-f --force", "disconnect its consumers", FLAG),),
        examples=(_EXAMPLE,),
    ),
    Command(
        "seek",
        "Moves a subscription to a time or to a message.",
        reset_cursor,
        _PERSISTENT,
        (
            Option("-t --time", "so far back: 100m, 3h, 2d", MILLIS),
            Option("-m --message-id", "latest, earliest, or ledgerId:entryId", called="messageId"),
        ),
        examples=(f"{_EXAMPLE} -t 1h", f"{_EXAMPLE} -m earliest"),
    ),
    Command(
        "skip",
        "Skips messages of a subscription.",
        _skip,
        _BOTH,
        (
            Option("-n --count", "how many", LONG, default=-1),
            Option("-a --all", "all of them", FLAG),
        ),
        examples=(f"{_EXAMPLE} -n 10", f"{_EXAMPLE} --all"),
    ),
    Command(
        "expire",
        "Skips old messages of a subscription.",
        _expire,
        _BOTH,
        (
            Option("-t --expire-time", "expire what is older: 100m, 3h", SECONDS, default=-1, called="expireTime"),
            Option("-a --all", "for all subscriptions of the topic", FLAG),
        ),
        examples=(f"{_EXAMPLE} -t 2d",),
    ),
    Command(
        "peek",
        "Shows the first messages that a subscription has not acknowledged.",
        peek_messages,
        _PERSISTENT,
        (Option("-n --count", "how many messages", INTEGER, default=1),),
        VALUE,
        examples=(f"{_EXAMPLE} -n 10",),
    ),
    Command(
        "get-message-by-id",
        "Shows a message by its id.",
        get_message_by_id,
        (PERSISTENT_TOPIC_ARGUMENT,),
        LEDGER_AND_ENTRY,
        VALUE,
        examples=("my-topic -l 3 -e 7",),
    ),
)
