"""The reference of all commands as Markdown, made of the tables. docs/admin/REFERENCE.md is this text."""

from magnetar.server.tools.admin.command_table import Command, Group
from magnetar.server.tools.admin.groups import GROUPS, commands_of
from magnetar.server.tools.admin.help_rules import PROGRAM, metavar, usage

HEAD = f"""\
# The commands of `{PROGRAM}`

This page is made of the tables in `server/tools/admin` by `{PROGRAM} documents generate`, and a test compares both.
[ADMIN.md](../ADMIN.md) says how to begin.
"""


def reference() -> str:
    """Returns the whole page."""
    index = "\n".join(f"- [{group.name}](#{group.name}): {group.summary}" for group in GROUPS)
    return "\n".join([HEAD, index, "", *(group_section(group) for group in GROUPS)])


def group_section(group: Group) -> str:
    """Returns the section of a group, with a paragraph for each of its commands."""
    lines = [f"## {group.name}", "", f"{group.summary[:1].upper()}{group.summary[1:]}."]
    if group.aliases:
        lines += ["", "Also called: " + ", ".join(f"`{alias}`" for alias in group.aliases)]
    seen = set()
    for command in commands_of(group):
        if command.name not in seen:
            seen.add(command.name)
            lines += ["", *_command(group, command)]
    return "\n".join([*lines, ""])


def _command(group: Group, command: Command) -> list[str]:
    lines = [f"### {group.name} {command.name}", "", command.summary, "", "```", usage(group, command)]
    lines += [f"{PROGRAM} {group.name} {command.name} {example}".rstrip() for example in command.examples]
    lines.append("```")
    shown = [option for option in command.options if not option.hidden]
    if shown:
        lines += ["", "| option | value | |", "|---|---|---|"]
    for option in shown:
        names = " ".join(f"`{name}`" for name in option.names.split())
        kind = metavar(option).replace("|", " or ") if option.takes_value else ""
        default = f" (default {option.default})" if option.takes_value and option.default not in (None, "") else ""
        text = option.help.replace("|", "\\|")
        lines.append(f"| {names} | {kind} | {text}{' (required)' if option.required else default} |")
    return lines
