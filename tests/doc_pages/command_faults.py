"""Whether our program understands the words of a command line: command, options and values. Nothing is run."""

import contextlib
import io

from magnetar.server.commands.main import build_parser
from magnetar.server.tools.admin.groups import find_command, find_group
from magnetar.server.tools.admin.parsing_rules import parse_command
from magnetar.server.tools.admin.running import shared_reader

PARSES_ITSELF = ("spark",)
"""Commands whose words are read by what they run. Tests of the Spark pages run them."""


def fault_of(words: list[str]) -> str | None:
    """Returns what the program says against its words, or None when it understands them."""
    if words[:1] == ["admin"]:
        return admin_fault(words[1:])
    if words[0] in PARSES_ITSELF:
        return None
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            _, unknown = build_parser().parse_known_args(words)
        except SystemExit as end:
            return said.getvalue() if end.code else None
    return f"unknown: {unknown}" if unknown else None


def admin_fault(words: list[str]) -> str | None:
    shared = shared_reader()
    at = 0
    while at < len(words) and (after := shared.read(words, at)) > at:
        at = after
    group = find_group(words[at]) if at < len(words) else None
    command = find_command(group, words[at + 1]) if group is not None and at + 1 < len(words) else None
    if command is None:
        return "there is no such command"
    try:
        parse_command(command, words[at + 2 :], shared)
    except Exception as error:
        return str(error)
    return None
