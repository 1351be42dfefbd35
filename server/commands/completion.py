"""`magnetar completion`: completes command lines of `magnetar` in a shell.

The words come from the parsers of the commands and, behind `admin`, from the tables of `magnetar admin`, so there is no
second list of commands and options."""

import argparse
import sys
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.tools.admin.completion_scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  eval "$(magnetar completion bash)"                   # for this shell; in ~/.bashrc for every new one
  eval "$(magnetar completion zsh)"
  magnetar completion fish | source
"""
WORDS = "words"
"""The subcommand that the scripts call at each TAB. The help does not show it."""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "completion",
        summary="complete commands and options by TAB in bash, zsh and fish",
        description="Prints the script by which a shell completes commands, options and, behind `magnetar admin`, "
        "names of topics and the like.",
        epilog=EXAMPLES,
    )
    shells = parser.add_subparsers(dest="shell", required=True, metavar="SHELL")
    for shell in SCRIPTS:
        shells.add_parser(shell, help=f"print the script for {shell}", allow_abbrev=False)
    words = shells.add_parser(WORDS, allow_abbrev=False)
    words.add_argument("words", nargs="*", metavar="WORD", help="the words that were typed behind `magnetar`")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.shell == WORDS:
        for word in candidates(arguments.words):
            print(word)
    else:
        sys.stdout.write(SCRIPTS[arguments.shell])
    return 0


def candidates(words: "Sequence[str]") -> list[str]:
    """Returns the words that may stand in place of the last of `words`, which may be empty."""
    *before, last = words or [""]
    if before[:1] == ["admin"]:
        from magnetar.server.tools.admin.candidates import candidates as candidates_of_admin

        return candidates_of_admin([*before[1:], last])
    from magnetar.server.commands.completion_rules import next_words
    from magnetar.server.commands.main import build_parser

    return [word for word in next_words(build_parser(before), before, last) if word.startswith(last)]
