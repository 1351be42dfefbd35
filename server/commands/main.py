"""The command line. Each subcommand is a module of this package and turns its faults into one sentence and an exit
code.

Exit codes: 0 for a stop on request, 1 for a program that could not start or failed, 2 for wrong usage. Tools say in
their help what else their exit codes mean.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from magnetar import __version__

COMMANDS = (
    "standalone",
    "cluster",
    "broker",
    "bookie",
    "autorecovery",
    "zookeeper",
    "backup",
    "restore",
    "bk",
    "leaks",
    "admin",
    "initialize-cluster-metadata",
    "tokens",
    "produce",
    "consume",
    "read",
    "bench",
    "check",
    "why",
    "ledgers",
    "story",
    "dashboards",
    "config",
    "completion",
    "testing",
    "spark",
)
"""The subcommands in the order in which `magnetar --help` lists them."""

MODULES = {"bench": "bench_command"}
"""The modules of this package that do not have the name of their command."""

EXAMPLES = """\
examples:
  magnetar standalone                                  # ports 6650 and 8080, data in ./data
  magnetar COMMAND --help                              # options and examples of one command
"""


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Returns the parser for a command line. When its first word names a command, only that command's module is
    imported, because the modules of all commands would take 20 ms of every start."""
    parser = argparse.ArgumentParser(
        prog="magnetar",
        description="Apache Pulsar's broker and Apache BookKeeper's replicated log.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"magnetar {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        module = MODULES.get(name, name.replace("-", "_"))
        import_module(f"magnetar.server.commands.{module}").add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv`, or that of the process if `argv` is None. Returns the exit code."""
    words = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if words[:1] == ["admin"]:
        from magnetar.server.commands.admin import run

        return run(words[1:])
    parser = build_parser(words)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; see magnetar {arguments.command} --help")
    code: int = arguments.run(arguments)
    return code
