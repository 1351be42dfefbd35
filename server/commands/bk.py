"""`magnetar bk`: the operator's tool for a BookKeeper cluster and a bookie's files, with the command names of
BookKeeper's BookieShell."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, assignment
from magnetar.server.programs.bk.verbs import GROUPS, Verb

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EPILOG = """\
examples:
  magnetar bk listbookies -rw --metadata-service-uri 'zk://zk1:2181;zk2:2181/ledgers'
  magnetar bk recover -q 10.0.0.5:3181 --conf bk_server.conf
  magnetar bk check --conf bk_server.conf
  magnetar bk VERB --help

The cluster is that of --metadata-service-uri, or of metadataServiceUri in --conf, else zk://localhost:2181/ledgers.
With --json each result is one JSON object on a line; progress goes to stderr.
exit codes: 0 done, 1 failed (for `check`: damage was found), 2 wrong usage.
"""


def add_parser(commands: "Commands") -> None:
    bk = add_command(
        commands,
        "bk",
        summary="look after a BookKeeper cluster (BookieShell's verbs)",
        description="Looks after a BookKeeper cluster and a bookie's files. Verbs:\n\n" + _list_of_verbs(),
        epilog=EPILOG,
    )
    _common(bk, None)
    verbs = bk.add_subparsers(dest="verb", required=True, metavar="VERB")
    for group in GROUPS.values():
        for verb in group:
            _add_verb(verbs, verb)
    bk.set_defaults(run=run)


def _add_verb(verbs: "Commands", verb: Verb) -> None:
    lines = verb.examples or (f"{verb.name} --metadata-service-uri zk://localhost:2181/ledgers",)
    parser = verbs.add_parser(
        verb.name,
        description=f"{verb.summary[:1].upper()}{verb.summary[1:]}.",
        epilog="examples:\n" + "".join(f"  magnetar bk {line}\n" for line in lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.options(parser)
    # The common options may stand before or after the verb. An option that is missing after the verb keeps the value
    # that was given before the verb.
    _common(parser, argparse.SUPPRESS)
    parser.set_defaults(implementation=verb.run)


def _common(parser: argparse.ArgumentParser, default: object) -> None:
    group = parser.add_argument_group("common options")
    group.add_argument("-conf", "--conf", type=Path, default=default, metavar="FILE", help="a bk_server.conf")
    group.add_argument(
        "--metadata-service-uri", dest="uri", default=default, metavar="URI", help="as in zk://h1:2181;h2:2181/ledgers"
    )
    group.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=default,
        type=assignment,
        metavar="KEY=VALUE",
        help="overrides a key of --conf",
    )
    group.add_argument(
        "--json",
        action="store_true",
        default=False if default is None else default,
        help="one JSON object for each result",
    )
    group.add_argument(
        "--log-level",
        default="ERROR" if default is None else default,
        choices=["DEBUG", "INFO", "WARNING", "ERROR"],
        help="of messages on stderr",
    )


def _list_of_verbs() -> str:
    lines = []
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"  {verb.name:<24} {verb.summary}" for verb in group]
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.programs.bk.verb_running import run_verb

    return run_verb(arguments)
