"""The rows of `topics` that concern subscriptions."""

from magnetar.server.tools.admin.body_rules import enabled
from magnetar.server.tools.admin.command_table import (
    FLAG,
    LINES,
    LONG,
    MAP,
    MILLIS,
    PAIRS,
    PERSISTENT_TOPIC_ARGUMENT,
    SECONDS,
    SUBSCRIPTION,
    TOPIC_ARGUMENT,
    VALUE,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.shared_policy_options import ENABLE_DISABLE
from magnetar.server.tools.admin.subscription_steps import (
    analyze_backlog,
    create_subscription,
    expire_messages,
    reset_cursor,
    show_backlog_size,
    show_properties,
    update_properties,
)

PROPERTY = Option("-p --property", "a property: -p a=b -p c=d", PAIRS)
EXPIRE_TIME = Option("-t --expireTime", "expire what is older: 100m, 3h, 2d", SECONDS, required=True)
MESSAGE_ID = Option("-m --messageId", "latest, earliest, or ledgerId:entryId", default="latest")
RESET_OPTIONS = (
    SUBSCRIPTION,
    Option("-t --time", "so far back: 100m, 3h, 2d", MILLIS),
    Option("-m --messageId", "latest, earliest, or ledgerId:entryId"),
)
EXCLUDE = Option("-e --exclude-reset-position", "go on behind that message", FLAG)
_BASE = "{topic}/subscription/{subscription}"
COMMANDS = (
    Command(
        "subscriptions",
        "Lists the subscriptions of a topic.",
        Call("GET", "{topic}/subscriptions"),
        (TOPIC_ARGUMENT,),
        output=LINES,
        examples=("my-topic",),
    ),
    Command(
        "create-subscription",
        "Creates a subscription.",
        create_subscription,
        (TOPIC_ARGUMENT,),
        (SUBSCRIPTION, MESSAGE_ID, Option("-r --replicated", "replicate its state to other clusters", FLAG), PROPERTY),
        examples=("my-topic -s my-subscription", "my-topic -s my-subscription -m earliest"),
    ),
    Command(
        "unsubscribe",
        "Deletes a subscription.",
        Call("DELETE", _BASE, (("force", "{force}"),)),
        (TOPIC_ARGUMENT,),
        (Option("-f --force", "disconnect its consumers", FLAG), SUBSCRIPTION),
        examples=("my-topic -s my-subscription",),
    ),
    Command(
        "update-subscription-properties",
        "Replaces the properties of a subscription.",
        update_properties,
        (TOPIC_ARGUMENT,),
        (SUBSCRIPTION, PROPERTY, Option("-c --clear", "remove them all", FLAG)),
        examples=("my-topic -s my-subscription -p a=b",),
    ),
    Command(
        "get-subscription-properties",
        "Shows the properties of a subscription.",
        show_properties,
        (TOPIC_ARGUMENT,),
        (SUBSCRIPTION,),
        VALUE,
        examples=("my-topic -s my-subscription",),
    ),
    Command(
        "skip",
        "Skips messages of a subscription.",
        Call("POST", _BASE + "/skip/{count}"),
        (TOPIC_ARGUMENT,),
        (SUBSCRIPTION, Option("-n --count", "how many", LONG, required=True)),
        examples=("my-topic -s my-subscription -n 10",),
    ),
    Command(
        "clear-backlog",
        "Skips all messages of a subscription.",
        Call("POST", _BASE + "/skip_all"),
        (TOPIC_ARGUMENT,),
        (SUBSCRIPTION,),
        examples=("my-topic -s my-subscription",),
    ),
    Command(
        "expire-messages",
        "Skips old messages of a subscription.",
        expire_messages,
        (TOPIC_ARGUMENT,),
        (
            SUBSCRIPTION,
            EXPIRE_TIME._replace(required=False, default=-1),
            Option("-p --position", "expire what is before ledgerId:entryId"),
            EXCLUDE,
        ),
        examples=("my-topic -s my-subscription -t 2d",),
    ),
    Command(
        "expire-messages-all-subscriptions",
        "Skips old messages of all subscriptions.",
        Call("POST", "{topic}/all_subscription/expireMessages/{expireTime}"),
        (TOPIC_ARGUMENT,),
        (EXPIRE_TIME,),
        examples=("my-topic -t 2d",),
    ),
    Command(
        "reset-cursor",
        "Moves a subscription to a time or to a message.",
        reset_cursor,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (*RESET_OPTIONS, EXCLUDE),
        examples=("my-topic -s my-subscription -t 1h", "my-topic -s my-subscription -m earliest"),
    ),
    Command(
        "set-replicated-subscription-status",
        "Sets whether a subscription's state is replicated.",
        Call("POST", _BASE + "/replicatedSubscriptionStatus", body=enabled),
        (PERSISTENT_TOPIC_ARGUMENT,),
        (SUBSCRIPTION, *ENABLE_DISABLE),
        examples=("my-topic -s my-subscription --enable",),
    ),
    Command(
        "get-replicated-subscription-status",
        "Shows whether a subscription's state is replicated.",
        Call("GET", _BASE + "/replicatedSubscriptionStatus"),
        (PERSISTENT_TOPIC_ARGUMENT,),
        (SUBSCRIPTION,),
        MAP,
        examples=("my-topic -s my-subscription",),
    ),
    Command(
        "get-backlog-size",
        "Shows how many bytes are stored from a message on.",
        show_backlog_size,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (Option("-m --messageId", "ledgerId:entryId, -1:-1 = the first", default="-1:-1"),),
        VALUE,
        examples=("my-topic",),
    ),
    Command(
        "analyze-backlog",
        "Reads a subscription's backlog and counts its messages.",
        analyze_backlog,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (SUBSCRIPTION, Option("-p --position", "begin at ledgerId:entryId")),
        VALUE,
        examples=("my-topic -s my-subscription",),
    ),
)
