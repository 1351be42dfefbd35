"""Starts the program of the console script `magnetar`."""

import sys


def main() -> None:
    """Runs the command that the command line names and ends the process with its exit code.

    `magnetar admin` is over in a tenth of a second, so it does not wait for the import of all other commands.
    """
    if sys.argv[1:2] == ["admin"]:
        from magnetar.server.commands.admin import run

        raise SystemExit(run(sys.argv[2:]))
    from magnetar.server.commands.main import main as run_command

    raise SystemExit(run_command())
