"""`magnetar why`: says why a subscription, or a producer, of a topic gets nothing."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.topic_questions import add_question_options, ask_about_topic, topic_name

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar why orders billing                          # one subscription of persistent://public/default/orders
  magnetar why persistent://acme/shop/orders           # all subscriptions and the producers
  magnetar why orders billing -o json --admin-url http://broker:8080

Exit codes: 0 when nothing stands in the way, 1 when something does, 2 for wrong usage, 3 when the cluster gives no
answer. docs/WHY.md explains each reason and what to do about it.
"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "why",
        summary="say why a subscription or a producer gets nothing",
        description="Says in plain words, with figures, why a topic's subscriptions or producers get nothing.",
        epilog=EXAMPLES,
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="persistent://tenant/namespace/name, or a name")
    parser.add_argument("subscription", nargs="?", metavar="SUBSCRIPTION", help="all of them when it is left out")
    add_question_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.diagnosis.why_text import why_text

    return ask_about_topic(
        arguments, why_text, lambda answer: int(answer["standsInTheWay"]), subscription=arguments.subscription
    )
