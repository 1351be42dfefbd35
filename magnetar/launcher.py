"""Starts the program of the console script `magnetar`."""

from magnetar.server.commands.main import main as run_command


def main() -> None:
    """Runs the command that the command line names and ends the process with its exit code."""
    raise SystemExit(run_command())
