"""`magnetar consume`: prints the messages of a subscription and acknowledges them."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.message_arguments import (
    CONNECTION_EXAMPLE,
    add_common_options,
    add_output_options,
    kind,
    run_told,
    settings_of,
)

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")

EPILOG = f"""\
examples:
  magnetar consume orders -s billing                           # until Ctrl-C
  magnetar consume orders -s billing -n 10 --timeout 5s        # exit code 1 when fewer than 10 come
  magnetar consume orders -s billing -p earliest -t Shared     # a new subscription begins with the first message
  magnetar consume orders -s billing -F '%i %k %v\\n'
  magnetar consume orders -s billing -o json | jq .value
  magnetar consume orders refunds -s billing                   # several topics
  magnetar consume 'orders-.*' --pattern -s billing            # all topics that match, new ones too

fields of -F: %t topic, %p partition, %i id, %k key, %v value, %o ordering key, %h properties, %h{{NAME}} one of them,
  %T publish time, %e event time (%T{{iso}}), %r redelivery count, %P producer, %S schema version, %%;
  %v{{base64}}, %v{{hex}}, %v{{json}}, %v{{len}}, and \\n \\t \\r \\0 \\\\ \\xHH

A message is acknowledged after it was written to standard output, never before. What was written and not yet
acknowledged when the command was killed comes again.
exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C.
{CONNECTION_EXAMPLE}"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "consume",
        summary="print the messages of a subscription and acknowledge them",
        description="Prints the messages of a subscription and acknowledges each once it is written.",
        epilog=EPILOG,
    )
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic, or a pattern with --pattern")
    parser.add_argument("-s", "--subscription", required=True, metavar="SUB", help="made when it does not exist")
    parser.add_argument("-t", "--type", choices=TYPES, default="Exclusive", help="default: Exclusive")
    parser.add_argument(
        "-p", "--position", choices=("earliest", "latest"), default="latest", help="where a new subscription begins"
    )
    parser.add_argument("--pattern", action="store_true", help="TOPIC is a regular expression")
    parser.add_argument("-n", "--count", type=kind("count"), default=0, metavar="N", help="end after N messages")
    parser.add_argument(
        "--timeout", type=kind("duration_seconds"), default=0.0, metavar="TIME", help="end after this time without any"
    )
    parser.add_argument("--name", default="", help="the name of the consumer")
    add_output_options(parser)
    add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    return run_told("consume", lambda: _consume(arguments))


def _consume(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.messages.consuming import ConsumeOptions, consume
    from magnetar.server.tools.messages.output_format_rules import DEFAULT_FORMAT
    from magnetar.server.tools.messages.tool_errors import UsageError
    from magnetar.server.tools.messages.topic_pattern_rules import parse_pattern

    topics = tuple(arguments.topics)
    if arguments.pattern:
        if len(topics) > 1:
            raise UsageError("--pattern takes one TOPIC")
        try:
            domain = "non-persistent" if topics[0].startswith("non-persistent://") else "persistent"
            topics = (f"{domain}://{parse_pattern(topics[0])[1]}",)
        except ValueError as error:
            raise UsageError(str(error)) from None
    return consume(
        ConsumeOptions(
            settings=settings_of(arguments),
            topics=topics,
            is_pattern=arguments.pattern,
            subscription=arguments.subscription,
            subscription_type=arguments.type,
            from_earliest=arguments.position == "earliest",
            count=arguments.count,
            idle_timeout_s=arguments.timeout,
            form=arguments.format or DEFAULT_FORMAT,
            as_json=arguments.output == "json",
            raw=arguments.raw,
            quiet=arguments.quiet,
            consumer_name=arguments.name,
            log_level=arguments.client_log,
        )
    )
