"""Starts the program of the console script `magnetar`."""


def main() -> None:
    """The entry point of the console script; it ends the process with the exit code of the command."""
    from magnetar.server.commands.main import main as run

    raise SystemExit(run())
