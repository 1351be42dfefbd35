"""The command line. Each subcommand is a module of this package and turns its faults into one sentence and an exit
code.

Exit codes: 0 for a stop on request, 1 for a program that could not start or failed, 2 for wrong usage. Tools say in
their help what else their exit codes mean.
"""

import argparse
import sys
from collections.abc import Sequence

from magnetar import __version__
from magnetar.server.commands import (
    admin,
    autorecovery,
    backup,
    bench_command,
    bk,
    bookie,
    broker,
    check,
    cluster,
    consume,
    dashboards,
    initialize_cluster_metadata,
    leaks,
    ledgers,
    produce,
    read,
    restore,
    spark,
    standalone,
    testing,
    tokens,
    why,
    zookeeper,
)

COMMANDS = (
    standalone,
    cluster,
    broker,
    bookie,
    autorecovery,
    zookeeper,
    backup,
    restore,
    bk,
    leaks,
    admin,
    initialize_cluster_metadata,
    tokens,
    produce,
    consume,
    read,
    bench_command,
    check,
    why,
    ledgers,
    dashboards,
    testing,
    spark,
)
"""The modules of the subcommands, in the order in which `magnetar --help` lists them."""

EXAMPLES = """\
examples:
  magnetar standalone                                  # ports 6650 and 8080, data in ./data
  magnetar COMMAND --help                              # options and examples of one command
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="magnetar",
        description="Apache Pulsar's broker and Apache BookKeeper's replicated log.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"magnetar {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv`, or that of the process if `argv` is None. Returns the exit code."""
    words = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if words[:1] == ["admin"]:
        return admin.run(words[1:])
    parser = build_parser()
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; see magnetar {arguments.command} --help")
    code: int = arguments.run(arguments)
    return code
