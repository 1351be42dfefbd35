"""`magnetar testing`: a server for the tests of programs in any language."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, assignment

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar testing run -- mvn test
  magnetar testing run -- go test ./...
  magnetar testing run --set brokerDeduplicationEnabled=true --log-file server.log -- npm test

The command finds the server by its environment:
  PULSAR_SERVICE_URL, PULSAR_ADMIN_URL                              for tests that read them
  SPRING_PULSAR_CLIENT_SERVICE_URL, SPRING_PULSAR_ADMIN_SERVICE_URL Spring Boot takes them by itself
  MAGNETAR_SERVICE_URL, MAGNETAR_ADMIN_URL                          for magnetar produce, magnetar admin and so on

The exit code is that of the command; 128 + N for a command that signal N ended; 125 when the server did not start, 126
for a command that cannot be run, and 127 for one that is not there.
"""


def add_parser(commands: "Commands") -> None:
    testing = add_command(
        commands,
        "testing",
        summary="run tests beside a server of their own",
        description="Runs the tests of programs that use Pulsar.",
        epilog=EXAMPLES,
    )
    actions = testing.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_parser = add_command(
        actions,
        "run",
        summary="start a server, run a command, and stop the server",
        description="Starts a server on ports that are free, runs the command, and ends with its exit code. The "
        "server's data is deleted.",
        epilog=EXAMPLES,
    )
    run_parser.add_argument(
        "--set", action="append", default=[], type=assignment, metavar="KEY=VALUE", help="a key of broker.conf"
    )
    run_parser.add_argument("--log-file", type=Path, metavar="FILE", help="keep the server's log in this file")
    run_parser.add_argument("words", nargs="+", metavar="COMMAND", help="the command with its arguments, behind --")
    run_parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.testing.run_command import run_with_server

    return run_with_server(arguments.words, dict(arguments.set), arguments.log_file)
