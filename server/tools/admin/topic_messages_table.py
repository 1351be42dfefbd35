"""The rows of `topics` that show messages and message ids."""

from magnetar.server.tools.admin.command_table import (
    FLAG,
    INTEGER,
    LONG,
    PERSISTENT_TOPIC_ARGUMENT,
    SUBSCRIPTION,
    VALUE,
    Call,
    Command,
    Option,
)
from magnetar.server.tools.admin.message_steps import (
    examine_message,
    get_message_by_id,
    get_message_id,
    peek_messages,
)

COUNT = Option("-n --count", "how many messages", INTEGER, default=1)
LEDGER_AND_ENTRY = (
    Option("-l --ledgerId", "the message's ledger", LONG, required=True),
    Option("-e --entryId", "the message's entry", LONG, required=True),
)
COMMANDS = (
    Command(
        "peek-messages",
        "Shows the first messages that a subscription has not acknowledged.",
        peek_messages,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (
            SUBSCRIPTION,
            COUNT,
            Option("-ssm --show-server-marker", "also what brokers write for themselves", FLAG),
            Option(
                "-til --transaction-isolation-level",
                "READ_COMMITTED or READ_UNCOMMITTED",
                default="READ_COMMITTED",
                choices=("READ_COMMITTED", "READ_UNCOMMITTED"),
            ),
        ),
        VALUE,
        examples=("my-topic -s my-subscription -n 10",),
    ),
    Command(
        "examine-messages",
        "Shows the n-th message from the beginning or the end.",
        examine_message,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (
            Option("-i --initialPosition", "count from latest or earliest", default="latest"),
            Option("-m --messagePosition", "the n", LONG, default=1),
        ),
        VALUE,
        examples=("my-topic", "my-topic -i earliest -m 3"),
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
    Command(
        "get-message-id",
        "Shows the id of the first message of a time.",
        get_message_id,
        (PERSISTENT_TOPIC_ARGUMENT,),
        (Option("-d --datetime", "as 2024-01-02T03:04:05.678Z", required=True),),
        VALUE,
        examples=("my-topic -d 2024-01-02T03:04:05Z",),
    ),
    Command(
        "last-message-id",
        "Shows the id of the last message.",
        Call("GET", "{topic}/lastMessageId"),
        (PERSISTENT_TOPIC_ARGUMENT,),
        output=VALUE,
        examples=("my-topic",),
    ),
)
