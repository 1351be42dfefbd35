"""The rows of `completion`: the script for a shell, and what it asks for at each TAB."""

import sys

from magnetar.server.tools.admin.command_table import RAW, Argument, Command
from magnetar.server.tools.admin.completion_scripts import SCRIPTS
from magnetar.server.tools.admin.invocation import Invocation


def _script(shell: str) -> Command:
    def run(_: Invocation) -> None:
        sys.stdout.write(SCRIPTS[shell])

    return Command(shell, f"Prints the completion for {shell}.", run, output=RAW, examples=("",))


def _words(invocation: Invocation) -> None:
    from magnetar.server.tools.admin.candidates import candidates

    for word in candidates(invocation["words"]):
        invocation.say(word)


COMMANDS = (
    *(_script(shell) for shell in SCRIPTS),
    Command(
        "words",
        "Prints the words that may stand in place of the last one; the scripts call it.",
        _words,
        (Argument("words", "the words after `magnetar admin`, as far as they were typed", many=True),),
        output=RAW,
        examples=("-- topics sta", "-- topics stats my-"),
        hidden=True,
    ),
)
