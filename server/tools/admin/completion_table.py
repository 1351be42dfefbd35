"""The rows of `completion`: the scripts of `magnetar completion`, for those who know only `magnetar admin`."""

import sys

from magnetar.server.tools.admin.command_table import RAW, Command
from magnetar.server.tools.admin.completion_scripts import SCRIPTS
from magnetar.server.tools.admin.invocation import Invocation


def _script(shell: str) -> Command:
    def run(_: Invocation) -> None:
        sys.stdout.write(SCRIPTS[shell])

    return Command(shell, f"Prints the completion for {shell}.", run, output=RAW, examples=("",))


COMMANDS = tuple(_script(shell) for shell in SCRIPTS)
