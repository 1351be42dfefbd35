"""`magnetar admin`: administers a cluster, ours or Apache's, with the commands of pulsar-admin."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar admin topics stats my-topic
  magnetar admin GROUP COMMAND --help
"""


def add_parser(commands: "Commands") -> None:
    """Adds the line in the list of commands. `main` reads the words behind `admin` itself and never by argparse."""
    from magnetar.server.commands.arguments import add_command

    add_command(
        commands,
        "admin",
        summary="administer a cluster with pulsar-admin's commands",
        description="Administers a cluster, Magnetar's or Apache's, with the commands of pulsar-admin.",
        epilog=EXAMPLES,
    ).set_defaults(run=_run_without_words)


def _run_without_words(_: "argparse.Namespace") -> int:
    return run([])


def run(words: Sequence[str]) -> int:
    """Runs the words behind `admin` and returns the exit code."""
    from magnetar.server.tools.admin.running import run_admin

    return run_admin(words)
