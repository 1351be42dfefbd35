"""`magnetar read`: prints messages of topics without a subscription."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.message_arguments import (
    CONNECTION_EXAMPLE,
    add_common_options,
    add_output_options,
    kind,
    position,
    run_told,
    settings_of,
    takes_negative_times,
)

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EPILOG = f"""\
examples:
  magnetar read orders                                 # all messages that there are
  magnetar read orders -f                              # new messages, until Ctrl-C
  magnetar read orders --from earliest -f              # both
  magnetar read orders --from -1h                      # what was published in the last hour
  magnetar read orders --from 2026-11-24T06:00 --to 2026-11-24T07:00 -o json
  magnetar read orders --from 12:34 -n 1               # the message of this id: ledger:entry[:partition[:batch index]]
  magnetar read orders refunds -F '%t %T{{iso}} %v\\n'
  magnetar read 'orders-.*' --pattern                  # asks --admin-url which topics there are

fields of -F: see magnetar consume --help

Within a partition messages come in order; across partitions and topics in any. No subscription is made, and nothing is
acknowledged. A time without a zone is in this machine's zone.
exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C.
{CONNECTION_EXAMPLE}"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "read",
        summary="print messages of topics, from any place, without a subscription",
        description="Prints messages of topics without a subscription.",
        epilog=EPILOG,
    )
    takes_negative_times(parser)
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or a pattern with --pattern")
    parser.add_argument(
        "--from",
        dest="start",
        type=position,
        metavar="PLACE",
        help="earliest, latest, an id, a time, or -1h; default: earliest, with -f latest",
    )
    parser.add_argument(
        "--to", dest="stop", type=position, metavar="PLACE", help="the last message: an id, a time, or -1h"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="wait for messages that are still to come")
    parser.add_argument("--pattern", action="store_true", help="TOPIC is a regular expression")
    parser.add_argument("-n", "--count", type=kind("count"), default=0, metavar="N", help="end after N messages")
    parser.add_argument(
        "--compacted", action="store_true", help="only the newest message of each key, after compaction"
    )
    add_output_options(parser)
    add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    return run_told("read", lambda: _read(arguments))


def _read(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.messages.output_format_rules import DEFAULT_FORMAT
    from magnetar.server.tools.messages.position_rules import End
    from magnetar.server.tools.messages.reading import ReadOptions, read
    from magnetar.server.tools.messages.tool_errors import UsageError

    if arguments.pattern and len(arguments.topics) > 1:
        raise UsageError("--pattern takes one TOPIC")
    if arguments.stop is End.EARLIEST:
        raise UsageError("--to earliest would read nothing")
    if arguments.start is End.LATEST and not arguments.follow:
        raise UsageError("--from latest without -f would read nothing")
    return read(
        ReadOptions(
            settings=settings_of(arguments),
            topics=tuple(arguments.topics),
            is_pattern=arguments.pattern,
            start=arguments.start or (End.LATEST if arguments.follow else End.EARLIEST),
            stop=None if arguments.stop is End.LATEST else arguments.stop,
            follow=arguments.follow and arguments.stop is not End.LATEST,
            count=arguments.count,
            compacted=arguments.compacted,
            form=arguments.format or DEFAULT_FORMAT,
            as_json=arguments.output == "json",
            raw=arguments.raw,
            quiet=arguments.quiet,
            log_level=arguments.client_log,
        )
    )
