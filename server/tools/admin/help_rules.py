"""The texts of --help, made of the tables."""

import textwrap
from collections.abc import Sequence

from magnetar.server.tools.admin.command_table import (
    BOOLEAN,
    BYTES,
    COMMA_PAIRS,
    COMMAS,
    FLOAT,
    INTEGER,
    LONG,
    MILLIS,
    PAIRS,
    SECONDS,
    Argument,
    Command,
    Group,
    Option,
)
from magnetar.server.tools.connection.shared_options import SHARED_OPTIONS

PROGRAM = "magnetar admin"
WIDTH = 100
NAMES_WIDTH = 34
_METAVARS = {
    INTEGER: "NUMBER",
    LONG: "NUMBER",
    FLOAT: "NUMBER",
    BOOLEAN: BOOLEAN,
    SECONDS: "TIME",
    MILLIS: "TIME",
    BYTES: "SIZE",
    COMMAS: "LIST",
    PAIRS: "KEY=VALUE",
    COMMA_PAIRS: "KEY=VALUE",
}
OUTPUT_HELP = "table, wide, json, yaml, or text as pulsar-admin prints it; text unless stdout is a terminal"


def usage(group: Group, command: Command) -> str:
    """Returns the line that says how a command is written."""
    required = [f"{_shortest(option)} {metavar(option)}" for option in command.options if option.required]
    optional = ["[options]"] if any(not option.required for option in command.options) else []
    places = [_place(argument) for argument in command.arguments]
    return " ".join(["usage:", PROGRAM, group.name, command.name, *optional, *required, *places])


def command_help(group: Group, command: Command) -> str:
    parts = [usage(group, command), command.summary]
    if command.aliases:
        parts.append("also called: " + ", ".join(command.aliases))
    if command.arguments:
        parts.append(_block("arguments", [(_place(each), each.help) for each in command.arguments]))
    shown = [option for option in command.options if not option.hidden]
    if shown:
        parts.append(_block("options", [(_names(option), _help(option)) for option in shown]))
    examples = [f"  {PROGRAM} {group.name} {command.name} {example}".rstrip() for example in command.examples]
    parts.append("\n".join(["examples:", *examples]))
    parts.append(f"Options of the connection and of the output: {PROGRAM} --help")
    return "\n\n".join(parts)


def group_help(group: Group, commands: Sequence[Command]) -> str:
    names = f"also called: {', '.join(group.aliases)}\n\n" if group.aliases else ""
    shown = [(command.name, command.summary) for command in commands if not command.hidden]
    first = next((command for command in commands if not command.hidden), commands[0])
    example = f"{PROGRAM} {group.name} {first.name} {first.examples[0] if first.examples else ''}".rstrip()
    return (
        f"usage: {PROGRAM} {group.name} COMMAND …\n\n{_capital(group.summary)}.\n\n{names}"
        f"{_block('commands', shown)}\n\nexamples:\n  {example}\n  {PROGRAM} {group.name} {first.name} --help"
    )


def program_help(groups: Sequence[Group]) -> str:
    shared = [
        (" ".join(option.names) + (f" {option.metavar}" if option.metavar else ""), option.help)
        for option in SHARED_OPTIONS
    ]
    return "\n\n".join(
        [
            f"usage: {PROGRAM} [options] GROUP COMMAND …",
            "Administers a cluster, Magnetar's or Apache's, with the commands of pulsar-admin.",
            _block("groups", [(group.name, group.summary) for group in groups if not group.hidden]),
            _block("connection", shared),
            _block("output", [("-o --output FORMAT", OUTPUT_HELP)]),
            "examples:\n"
            f"  {PROGRAM} tenants list\n"
            f"  {PROGRAM} --admin-url https://host:8443 --token-file my.token topics stats my-topic\n"
            f"  {PROGRAM} topics stats my-topic -o yaml\n"
            f"  {PROGRAM} context set west --admin-url http://west:8080\n"
            f"  alias pulsar-admin='{PROGRAM}'\n"
            f'  eval "$({PROGRAM} completion bash)"',
            "exit codes: 0 done, 1 failed or wrong usage",
        ]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _shortest(option: Option) -> str:
    return option.names.split()[0]


def metavar(option: Option) -> str:
    """Returns the word that stands for an option's value."""
    return _METAVARS.get(option.kind, "TEXT")


def _place(argument: Argument) -> str:
    name = argument.key.upper()
    if argument.many:
        return f"[{name} …]"
    return f"[{name}]" if argument.optional else name


def _names(option: Option) -> str:
    names = " ".join(option.names.split())
    return f"{names} {metavar(option)}" if option.takes_value else names


def _help(option: Option) -> str:
    text = option.help
    if option.required:
        return f"{text} (required)"
    if option.takes_value and option.default is not None:
        return f"{text} (default: {option.default})"
    return text


def _block(title: str, rows: Sequence[tuple[str, str]]) -> str:
    width = min(NAMES_WIDTH, max(len(names) for names, _ in rows))
    lines = [f"{title}:"]
    for names, text in rows:
        wrapped = textwrap.wrap(text, WIDTH - width - 4) or [""]
        if len(names) > width:
            lines.append(f"  {names}")
        else:
            lines.append(f"  {names:<{width}}  {wrapped.pop(0)}".rstrip())
        lines += [" " * (width + 4) + line for line in wrapped]
    return "\n".join(lines)
