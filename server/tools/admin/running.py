"""Runs a command line of `magnetar admin` and turns its end into texts and an exit code, as pulsar-admin does."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from magnetar.server.tools.admin.admin_errors import CommandError, RefusedError, UsageError
from magnetar.server.tools.admin.command_table import MARK, TEXT, Command, Group, Option
from magnetar.server.tools.admin.groups import GROUPS, commands_of, find_command, find_group
from magnetar.server.tools.admin.invocation import FORMATS, TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.parsing_rules import HELP, VERSION, OptionReader, parse_command
from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.server.tools.connection.shared_options import SHARED_OPTIONS

WITHOUT_SERVER = ("context", "completion", "documents")
"""Groups whose commands call no server, or make their own connection."""
FORMAT = Option("-o --output", "how answers are shown", choices=FORMATS, called="form")
DONE, FAILED = 0, 1


def run_admin(words: Sequence[str]) -> int:
    """Runs the words after `magnetar admin` and returns the exit code."""
    try:
        return _run(list(words))
    except KeyboardInterrupt:
        return 130


def shared_reader() -> OptionReader:
    """Returns a reader of the options that every command has: the connection and the format of the output."""
    options = [
        Option(" ".join(each.names), each.help, TEXT if each.metavar else MARK, called=each.key)
        for each in SHARED_OPTIONS
    ]
    return OptionReader((*options, FORMAT))


def _run(words: list[str]) -> int:
    shared = shared_reader()
    at = 0
    try:
        while at < len(words) and (after := shared.read(words, at)) > at:
            at = after
    except UsageError as error:
        return _complain(str(error), "")
    rest = words[at:]
    if not rest or rest[0] in HELP:
        from magnetar.server.tools.admin.help_rules import program_help

        return _help(program_help(GROUPS), asked=bool(rest))
    if rest[0] in VERSION:
        from magnetar import __version__

        print(f"Current version of magnetar admin is: {__version__}")
        return DONE
    group = find_group(rest[0])
    if group is None:
        return _complain(f"Unmatched argument at index {at}: '{rest[0]}'", _nearest(rest[0], _group_names()))
    return _run_group(group, rest[1:], shared, at + 1)


def _run_group(group: Group, words: list[str], shared: OptionReader, offset: int) -> int:
    """Runs the words behind a group's name, of which the first stands at `offset` in the command line."""
    name = words[0] if words else ""
    if not name or name in HELP:
        from magnetar.server.tools.admin.help_rules import group_help

        return _help(group_help(group, tuple(commands_of(group))), asked=bool(name))
    command = find_command(group, name)
    if command is None:
        near = _nearest(name, [each.name for each in commands_of(group)])
        return _complain(
            f"Unmatched argument at index {offset}: '{name}'", near or f"see: magnetar admin {group.name} --help"
        )
    try:
        parsed = parse_command(command, words[1:], shared, offset + 1)
        if parsed.wants_help:
            from magnetar.server.tools.admin.help_rules import command_help

            return _help(command_help(group, command), asked=True)
        if parsed.wants_version:
            from magnetar import __version__

            print(f"Current version of magnetar admin is: {__version__}")
            return DONE
        return _invoke(group, command, parsed.values, shared.values)
    except UsageError as error:
        from magnetar.server.tools.admin.help_rules import usage

        return _complain(str(error), f"{usage(group, command)}\nsee: magnetar admin {group.name} {command.name} --help")


def _invoke(group: Group, command: Command, values: dict[str, Any], shared: dict[str, Any]) -> int:
    form = shared.get("form") or ("table" if sys.stdout.isatty() else TEXT_FORMAT)
    flags = {key: "true" if value is True else value for key, value in shared.items() if key != "form"}
    try:
        http: Any = None
        if group.name not in WITHOUT_SERVER:
            from magnetar.server.tools.connection.http_client import AdminHttp
            from magnetar.server.tools.connection.settings import load_settings

            http = AdminHttp(load_settings(flags, os.environ))
        Invocation(command, values, http, form).run()
    except AdminCallError as error:
        return _fail(error.reason)
    except (CommandError, ConnectionSettingsError) as error:
        return _fail(str(error))
    except (AttributeError, KeyError, TypeError) as error:
        # A broker's answer has the members that the steps of a command look for.
        return _fail(f"the server's answer was not understood ({error!r}): is it a Pulsar broker?")
    except RefusedError as error:
        sys.stdout.flush()
        print(str(error), file=sys.stderr)
        return FAILED
    return DONE


def _fail(reason: str) -> int:
    from magnetar.server.tools.admin.terminal_rules import visible

    sys.stdout.flush()
    shown = visible(reason)
    print(f"{shown}\n\nReason: {shown}", file=sys.stderr)
    return FAILED


def _complain(text: str, more: str) -> int:
    sys.stdout.flush()
    print(text, *([more] if more else []), sep="\n", file=sys.stderr)
    return FAILED


def _help(text: str, *, asked: bool) -> int:
    """Shows help on stdout when it was asked for, else on stderr because a word is missing."""
    if asked:
        print(text)
        return DONE
    return _complain("Missing required subcommand", text)


def _group_names() -> list[str]:
    return [group.name for group in GROUPS if not group.hidden]


def _nearest(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 3)
    return f"Did you mean: {', '.join(near)}?" if near else ""
