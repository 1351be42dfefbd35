"""The row of `documents`."""

from magnetar.server.tools.admin.command_table import RAW, Argument, Command
from magnetar.server.tools.admin.invocation import Invocation


def _generate(invocation: Invocation) -> None:
    from magnetar.server.tools.admin.groups import GROUPS
    from magnetar.server.tools.admin.reference_rules import group_section

    wanted = invocation["groups"]
    for group in GROUPS:
        if group.name in wanted or (not wanted and not group.hidden):
            invocation.say(group_section(group))


COMMANDS = (
    Command(
        "generate",
        "Prints the reference of groups as Markdown.",
        _generate,
        (Argument("groups", "names of groups; all of them without a name", many=True),),
        output=RAW,
        examples=("topics", ""),
    ),
)
