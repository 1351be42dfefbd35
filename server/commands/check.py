"""`magnetar check`: looks at a cluster for a monitoring system."""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from magnetar.server.commands.arguments import add_command
from magnetar.server.commands.message_arguments import kind
from magnetar.server.tools.connection.shared_options import DESTINATION, add_shared_options

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands
    from magnetar.server.tools.connection.settings import ConnectionSettings
    from magnetar.server.tools.messages.check_rules import Outcome, Thresholds

UNKNOWN = 3
"""The exit code of monitoring plugins for wrong usage. argparse's own would be read as critical."""
DEFAULT_TIMEOUT_S = 10.0

CODES = """
Exit codes are those of monitoring plugins: 0 ok, 1 warning, 2 critical, 3 unknown (also wrong usage). A threshold is
NAME=VALUE, or VALUE for the first measure. Measures marked * are bad when they are below their threshold.
"""
EPILOG = f"""\
examples:
  magnetar check connection --service-url pulsar+ssl://broker:6651 --warn certificate=30d
  magnetar check topic orders --warn backlog=10k --critical producers=1
  magnetar check subscription orders billing --warn backlog=1000 --critical backlog=100000 --critical age=10m
  magnetar check latency --warn 50ms --critical 1s
  magnetar check disk --path /var/lib/magnetar --bookie http://bookie1:8000
  magnetar check brokers --critical 3 --format prometheus > /var/lib/node_exporter/brokers.prom
{CODES}"""


def refuse_usage(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Does what a parser's `error` does, with another exit code."""
    parser.print_usage(sys.stderr)
    parser.exit(UNKNOWN, f"{parser.prog}: error: {message}\n")


class CheckParser(argparse.ArgumentParser):
    """A parser whose wrong usage ends with UNKNOWN."""

    def error(self, message: str) -> NoReturn:
        refuse_usage(self, message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuses what is not known here: the parser of all commands would do it with its own exit code."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


class Check(NamedTuple):
    """One check. `measures` is what its help says about thresholds. `options` adds what it needs besides the options of
    all checks."""

    name: str
    summary: str
    example: str
    measures: str
    run: Callable[[argparse.Namespace], int]
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "check",
        summary="look at a cluster for a monitoring system",
        description="Looks at one thing of a cluster and ends with the exit code of a monitoring plugin.",
        epilog=EPILOG,
    )
    # The class of this parser is that of all commands, but a check that does not exist is wrong usage of a check.
    parser.error = partial(refuse_usage, parser)  # type: ignore[method-assign]
    checks = parser.add_subparsers(dest="check", required=True, metavar="CHECK", parser_class=CheckParser)
    for check in CHECKS:
        _add(
            checks.add_parser(
                check.name,
                help=check.summary,
                description=f"{check.summary[:1].upper()}{check.summary[1:]}.",
                epilog=f"example:\n  magnetar check {check.example}\n\nmeasures: {check.measures}\n{CODES}",
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            ),
            check,
        )


def _add(parser: argparse.ArgumentParser, check: Check) -> None:
    check.options(parser)
    parser.add_argument("-w", "--warn", action="append", default=[], metavar="[NAME=]VALUE", help="repeatable")
    parser.add_argument("-c", "--critical", action="append", default=[], metavar="[NAME=]VALUE", help="repeatable")
    parser.add_argument("--format", choices=("nagios", "prometheus", "json", "text"), default="nagios")
    parser.add_argument(
        "--timeout", type=kind("duration_seconds"), default=DEFAULT_TIMEOUT_S, metavar="TIME", help="default: 10s"
    )
    add_shared_options(parser)
    parser.set_defaults(run=check.run, usage_error=parser.error)


def _topic_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")


def _subscription_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("subscription", metavar="SUBSCRIPTION")


def _latency_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topic",
        nargs="?",
        default="",
        metavar="TOPIC",
        help="default: magnetar-check in public/default, which is kept for the next check",
    )
    parser.add_argument("--samples", type=kind("count"), default=5, metavar="N", help="default: 5")


def _disk_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", action="append", default=[], metavar="FOLDER", help="repeatable")
    parser.add_argument(
        "--bookie", action="append", default=[], metavar="URL", help="a bookie's HTTP address; repeatable"
    )


def run_connection(arguments: argparse.Namespace) -> int:
    def work(outcome: "Outcome", settings: "ConnectionSettings", thresholds: "Thresholds") -> None:
        from magnetar.server.tools.messages.connection_check import check_connection

        outcome.subject = settings.broker_service_url
        check_connection(outcome, settings, thresholds, arguments.timeout)

    return _run(arguments, "", work)


def run_topic(arguments: argparse.Namespace) -> int:
    topic = _topic(arguments)

    def work(outcome: "Outcome", settings: "ConnectionSettings", thresholds: "Thresholds") -> None:
        from magnetar.server.tools.connection.http_client import AdminHttp
        from magnetar.server.tools.messages.stats_check import check_topic

        check_topic(outcome, AdminHttp(settings), topic, thresholds)

    return _run(arguments, topic.full, work)


def run_subscription(arguments: argparse.Namespace) -> int:
    topic = _topic(arguments)

    def work(outcome: "Outcome", settings: "ConnectionSettings", thresholds: "Thresholds") -> None:
        from magnetar.server.tools.connection.http_client import AdminHttp
        from magnetar.server.tools.messages.stats_check import check_subscription

        check_subscription(outcome, AdminHttp(settings), topic, arguments.subscription, thresholds)

    return _run(arguments, f"{topic.full} {arguments.subscription}", work)


def run_latency(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.messages.latency_check import DEFAULT_TOPIC, check_latency

    arguments.topic = arguments.topic or DEFAULT_TOPIC
    topic = _topic(arguments).full

    def work(outcome: "Outcome", settings: "ConnectionSettings", thresholds: "Thresholds") -> None:
        check_latency(outcome, settings, topic, arguments.samples, thresholds, arguments.timeout)

    return _run(arguments, topic, work)


def run_disk(arguments: argparse.Namespace) -> int:
    def work(outcome: "Outcome", settings: "ConnectionSettings", thresholds: "Thresholds") -> None:
        from magnetar.server.tools.connection.http_client import AdminHttp
        from magnetar.server.tools.messages.disk_check import check_disk

        server = None
        if not arguments.path and not arguments.bookie:
            outcome.subject, server = settings.web_service_url, AdminHttp(settings)
        check_disk(outcome, arguments.path, arguments.bookie, thresholds, arguments.timeout, server)

    return _run(arguments, " ".join((*arguments.path, *arguments.bookie)), work)


def run_brokers(arguments: argparse.Namespace) -> int:
    def work(outcome: "Outcome", settings: "ConnectionSettings", thresholds: "Thresholds") -> None:
        from magnetar.server.tools.connection.http_client import AdminHttp
        from magnetar.server.tools.messages.stats_check import check_brokers

        outcome.subject = settings.web_service_url
        check_brokers(outcome, AdminHttp(settings), thresholds)

    return _run(arguments, "", work)


def _topic(arguments: argparse.Namespace) -> Any:
    from pulsar_proto.errors import InvalidTopicName
    from pulsar_proto.names import TopicName

    try:
        return TopicName.parse(arguments.topic)
    except InvalidTopicName as error:
        return arguments.usage_error(str(error))


def _run(
    arguments: argparse.Namespace,
    subject: str,
    work: "Callable[[Outcome, ConnectionSettings, Thresholds], None]",
) -> int:
    """Parses the thresholds, loads the settings with the check's timeout, and runs the check."""
    from magnetar.server.tools.connection.settings import load_settings
    from magnetar.server.tools.messages.check_measures import KINDS
    from magnetar.server.tools.messages.check_rules import Outcome, parse_thresholds
    from magnetar.server.tools.messages.checking import run_check

    try:
        thresholds = parse_thresholds(KINDS[arguments.check], arguments.warn, arguments.critical)
    except ValueError as error:
        arguments.usage_error(str(error))

    def with_settings(outcome: Outcome) -> None:
        settings = load_settings(getattr(arguments, DESTINATION), os.environ)
        work(outcome, settings._replace(request_timeout_seconds=arguments.timeout), thresholds)

    return run_check(Outcome(arguments.check, subject), arguments.format, with_settings)


CHECKS = (
    Check(
        "connection",
        "connect, make TLS and log in, at every address of --service-url",
        "connection --service-url pulsar+ssl://broker:6651 --token-file check.jwt --warn certificate=30d",
        "connect (default critical 5s), certificate* (time until it expires; default warn 21d, critical 3d)",
        run_connection,
    ),
    Check(
        "topic",
        "the statistics of a topic, partitioned or not",
        "topic orders --warn backlog=10k --critical producers=1",
        "backlog (the largest of its subscriptions), producers*, subscriptions*, storage, rate_in*",
        run_topic,
        _topic_option,
    ),
    Check(
        "subscription",
        "the backlog of a subscription, its age, and who consumes",
        "subscription orders billing --warn 1000 --critical age=10m --critical consumers=1",
        "backlog, age (of the oldest message), unacked, consumers*, rate_out*",
        run_subscription,
        _subscription_options,
    ),
    Check(
        "latency",
        "publish messages and read them back; needs pip install 'magnetar[client]'",
        "latency --warn 50ms --critical 1s",
        "latency (from sending to receiving, the longest of all samples), publish (to the receipt)",
        run_latency,
        _latency_options,
    ),
    Check(
        "disk",
        "how full disks are: of a standalone server, of folders on this machine, and of bookies",
        "disk --path /var/lib/magnetar --bookie http://bookie1:8000 --critical 90",
        "used (percent of the fullest disk; default warn 85, critical 95), free* (the least of all disks)",
        run_disk,
        _disk_options,
    ),
    Check(
        "brokers",
        "how many brokers there are, their leader, and the health of the one that is asked",
        "brokers --admin-url http://broker:8080 --warn 3",
        "brokers* (default critical 1)",
        run_brokers,
    ),
)
"""The checks, in the order in which the help lists them."""
