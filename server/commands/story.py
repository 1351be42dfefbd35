"""`magnetar story`: tells where a message is stored, and what each subscription has done with it."""

import argparse
import re
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.topic_questions import add_question_options, ask_about_topic, topic_name

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?::(\d{1,7}))?")

EXAMPLES = """\
examples:
  magnetar story orders 12:0          # the message with ledger 12 and entry 0 of persistent://public/default/orders
  magnetar story orders 12:0:3        # the fourth message of that batch
  magnetar story orders 12:0 --watch 1 -o json

Exit codes: 0 for an answer, 2 for wrong usage, 3 when the cluster gives no answer or has no such message.
"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "story",
        summary="tell where a message is, and who has received and acknowledged it",
        description="Tells which bookies store a message, and for each subscription whether the message was sent to a "
        "consumer, is delayed, waits, or was acknowledged.",
        epilog=EXAMPLES,
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="one partition, or a topic without partitions")
    parser.add_argument("id", type=message_id, metavar="ID", help="ledger:entry, or ledger:entry:index in a batch")
    add_question_options(parser)
    parser.set_defaults(run=run)


def message_id(text: str) -> tuple[str, str, str | None]:
    """Returns ledger, entry and index in the batch, as they were written."""
    match = _ID.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no message id such as 12:0 or 12:0:3")
    return match[1], match[2], match[3]


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.diagnosis.story_text import story_text

    ledger, entry, index = arguments.id
    return ask_about_topic(arguments, story_text, call=("messages", ledger, entry, "story"), batchIndex=index)
