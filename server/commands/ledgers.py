"""`magnetar ledgers`: shows the ledgers of a topic, the bookies that have them, and what keeps each ledger."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.topic_questions import add_question_options, ask_about_topic, topic_name

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar ledgers orders                              # the ledgers of persistent://public/default/orders
  magnetar ledgers orders -o json --admin-url http://broker:8080

Exit codes: 0 for an answer, 2 for wrong usage, 3 when the cluster gives no answer. docs/LEDGERS.md explains what keeps
a ledger.
"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "ledgers",
        summary="show a topic's ledgers, where they are, and what keeps them",
        description="Shows each ledger of a topic: its size, its bookies, and what keeps it from being deleted.",
        epilog=EXAMPLES,
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="persistent://tenant/namespace/name, or a name")
    add_question_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.diagnosis.ledgers_text import ledgers_text

    return ask_about_topic(arguments, ledgers_text)
