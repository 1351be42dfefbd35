"""Starts the program of the console script `magnetar`."""

import os
import sys

FAILED = 1


def main() -> None:
    """Runs the command that the command line names and ends the process with its exit code."""
    code: object
    try:
        try:
            code = _run()
        except SystemExit as end:
            code = end.code
        if sys.stdout is not None:  # None when the process was started without it
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    raise SystemExit(code)


def _run() -> int:
    """Runs the command. `magnetar admin` is over in a tenth of a second, so it does not wait for the import of
    the other commands."""
    if sys.argv[1:2] == ["admin"]:
        from magnetar.server.commands.admin import run

        return run(sys.argv[2:])
    from magnetar.server.commands.main import main as run_command

    return run_command()
