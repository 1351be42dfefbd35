"""The rows of `non-persistent`, which is older than `topics`."""

from magnetar.server.tools.admin.command_table import (
    INTEGER,
    LINES,
    NAMESPACE_ARGUMENT,
    NON_PERSISTENT_TOPIC_ARGUMENT,
    TOPIC_ARGUMENT,
    VALUE,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.topic_steps import lookup

_EXAMPLE = ("non-persistent://my-tenant/my-namespace/my-topic",)
_LIST = "{namespace.root}/non-persistent/{namespace.text}"
COMMANDS = (
    Command(
        "create-partitioned-topic",
        "Creates a partitioned topic.",
        Call("PUT", "{topic}/partitions", body="partitions"),
        (NON_PERSISTENT_TOPIC_ARGUMENT,),
        (Option("-p --partitions", "how many partitions", INTEGER, required=True),),
        examples=(f"{_EXAMPLE[0]} -p 4",),
    ),
    Command("lookup", "Shows the broker of a topic.", lookup, (TOPIC_ARGUMENT,), output=VALUE, examples=_EXAMPLE),
    *(
        Command(
            name,
            summary,
            Call("GET", "{topic}/" + path),
            (NON_PERSISTENT_TOPIC_ARGUMENT,),
            output=VALUE,
            stats=name == "stats",
            examples=_EXAMPLE,
        )
        for name, summary, path in (
            ("stats", "Shows the statistics of a topic.", "stats"),
            ("stats-internal", "Shows the inner state of a topic.", "internalStats"),
            ("get-partitioned-topic-metadata", "Shows how many partitions a topic has.", "partitions"),
        )
    ),
    Command(
        "list",
        "Lists the topics of a namespace.",
        Call("GET", _LIST),
        (NAMESPACE_ARGUMENT,),
        output=LINES,
        examples=("my-tenant/my-namespace",),
    ),
    Command(
        "list-in-bundle",
        "Lists the topics of a bundle.",
        Call("GET", _LIST + "/{bundle}"),
        (NAMESPACE_ARGUMENT,),
        (Option("-b --bundle", "the bundle, as 0x00000000_0xffffffff", required=True),),
        LINES,
        examples=("my-tenant/my-namespace -b 0x00000000_0xffffffff",),
    ),
)
