"""`magnetar produce`: publishes lines, texts and files as messages."""

import argparse
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.message_arguments import (
    CONNECTION_EXAMPLE,
    add_common_options,
    kind,
    moment_ms,
    parsed,
    run_told,
    separator,
    settings_of,
    takes_negative_times,
)

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands
    from magnetar.server.tools.messages.input_line_rules import LineParser

COMPRESSIONS = ("none", "lz4", "zlib", "zstd", "snappy")
SCHEMA_TYPES = ("BYTES", "STRING", "JSON", "AVRO")

EPILOG = f"""\
examples:
  magnetar produce orders -m hello
  printf 'one\\ntwo\\n' | magnetar produce orders               # each line of standard input is a message
  magnetar produce orders -f picture.png                       # a whole file is a message
  printf 'k1:one\\nk2:two\\n' | magnetar produce orders -K :     # key:value
  printf 'k1 one\\n' | magnetar produce orders -F '%k %v'       # %k key, %v value, %h{{NAME}} property, %e event time
  magnetar produce orders -m hello -p source=shell -p run=7 --print-ids
  magnetar produce orders -m later --deliver-after 10m         # for Shared and Key_Shared subscriptions
  echo '{{"name": "x", "age": 3}}' | magnetar produce people --schema person.avsc
  echo '{{"name": "x", "age": 3}}' | magnetar produce people --schema registry
  magnetar read orders -o json | magnetar produce copy -o json # values, keys, properties and event times

Standard input is read when there is neither -m nor -f.
exit codes: 0 every message was acknowledged, 1 not every one, 2 wrong usage, 130 Ctrl-C.
{CONNECTION_EXAMPLE}"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "produce",
        summary="publish lines, texts and files as messages",
        description="Publishes messages: the lines of standard input, texts, or files.",
        epilog=EPILOG,
    )
    takes_negative_times(parser)
    parser.add_argument("topic", metavar="TOPIC")
    _add_content(parser.add_argument_group("messages"))
    _add_sending(parser.add_argument_group("sending"))
    add_common_options(parser)
    parser.set_defaults(run=run)


def _add_content(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-m", "--message", action="append", default=[], metavar="TEXT", help="a message; repeatable")
    group.add_argument("-f", "--file", action="append", default=[], metavar="FILE", help="a file as a message")
    group.add_argument(
        "-D", "--delimiter", type=separator, default=b"\n", metavar="TEXT", help="what ends a line; default: \\n"
    )
    lines = group.add_mutually_exclusive_group()
    lines.add_argument("-K", "--key-separator", type=separator, metavar="TEXT", help="a line is KEY TEXT VALUE")
    lines.add_argument("-F", "--format", dest="line_parser", type=_formatted, metavar="FORMAT", help="what a line is")
    lines.add_argument(
        "-o", "--input", choices=("text", "json"), default="text", help="json: lines as consume -o json prints them"
    )
    group.add_argument("-k", "--key", default="", help="the key of messages that bring none")
    group.add_argument(
        "-p", "--property", action="append", default=[], type=kind("pair"), metavar="NAME=VALUE", help="repeatable"
    )
    group.add_argument("--event-time", type=moment_ms, default=0, metavar="TIME", help="such as 2026-11-24T06:30")
    group.add_argument("-Z", "--null-if-empty", action="store_true", help="an empty value is a null (a tombstone)")
    group.add_argument("--schema", default="", metavar="FILE|registry", help="Avro schema; registry: the topic's own")
    group.add_argument("--schema-type", choices=SCHEMA_TYPES, default="", metavar="TYPE", help=", ".join(SCHEMA_TYPES))


def _add_sending(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-n", "--repeat", type=kind("count"), default=1, metavar="N", help="send each message N times")
    group.add_argument("-r", "--rate", type=kind("count"), default=0, metavar="N", help="messages a second at most")
    delay = group.add_mutually_exclusive_group()
    delay.add_argument(
        "--deliver-after", type=kind("duration_seconds"), default=0.0, metavar="TIME", help="such as 10m"
    )
    delay.add_argument("--deliver-at", type=moment_ms, default=0, metavar="TIME", help="such as 2026-11-24T06:30")
    group.add_argument("--compression", choices=COMPRESSIONS, default="none")
    batching = group.add_mutually_exclusive_group()
    batching.add_argument("--no-batching", action="store_true", help="an entry for each message")
    batching.add_argument("--chunking", action="store_true", help="cut large messages into chunks; without batches")
    group.add_argument("--batch-messages", type=kind("count"), default=1000, metavar="N", help="at most; default: 1000")
    group.add_argument(
        "--batch-delay", type=kind("duration_seconds"), default=0.01, metavar="TIME", help="at most; default: 10ms"
    )
    group.add_argument(
        "--send-timeout", type=kind("duration_seconds"), default=30.0, metavar="TIME", help="default: 30s; 0: none"
    )
    group.add_argument("--name", default="", help="the name of the producer")
    group.add_argument("-i", "--print-ids", action="store_true", help="print the id of each message, in order")


def _formatted(text: str) -> "LineParser":
    from magnetar.server.tools.messages.input_line_rules import formatted_line

    parser: LineParser = parsed(formatted_line, text)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return run_told("produce", lambda: _produce(arguments))


def _produce(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.messages.input_line_rules import keyed_line, whole_line
    from magnetar.server.tools.messages.json_line_rules import parse_json_line
    from magnetar.server.tools.messages.producing import ProduceOptions, produce

    parse_line = arguments.line_parser or whole_line
    if arguments.key_separator is not None:
        parse_line = keyed_line(arguments.key_separator)
    if arguments.input == "json":
        parse_line = parse_json_line
    return produce(
        ProduceOptions(
            settings=settings_of(arguments),
            topic=arguments.topic,
            texts=tuple(arguments.message),
            files=tuple(arguments.file),
            separator=arguments.delimiter,
            parse_line=parse_line,
            key=arguments.key,
            properties=dict(arguments.property),
            event_time_ms=arguments.event_time,
            deliver_after_s=arguments.deliver_after,
            deliver_at_ms=arguments.deliver_at,
            null_if_empty=arguments.null_if_empty,
            schema=arguments.schema,
            schema_type=arguments.schema_type,
            compression=arguments.compression,
            batching=not arguments.no_batching,
            batch_messages=arguments.batch_messages,
            batch_delay_s=arguments.batch_delay,
            chunking=arguments.chunking,
            repeats=arguments.repeat,
            rate=arguments.rate,
            send_timeout_s=arguments.send_timeout,
            producer_name=arguments.name,
            print_ids=arguments.print_ids,
            quiet=arguments.quiet,
            log_level=arguments.client_log,
        )
    )
