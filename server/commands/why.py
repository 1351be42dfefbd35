"""`magnetar why`: says why a subscription, or a producer, of a topic gets nothing."""

import argparse
import os
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, topic_name
from magnetar.server.tools.connection.shared_options import add_shared_options

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
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="text unless it is given")
    parser.add_argument(
        "--watch",
        type=watch_seconds,
        metavar="SECONDS",
        help="ask again after so many seconds, and print an answer when it differs",
    )
    add_shared_options(parser)
    parser.set_defaults(run=run)


def watch_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0.1 to a day")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.diagnosis.why_tool import run_why

    return run_why(
        arguments.topic,
        arguments.subscription,
        flags=arguments.connection_flags,
        environment=os.environ,
        as_json=arguments.output == "json",
        watch_seconds=arguments.watch,
    )
