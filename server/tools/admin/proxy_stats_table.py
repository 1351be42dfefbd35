"""The rows of `proxy-stats`, which are for a Pulsar proxy: name its address with --admin-url."""

from magnetar.server.tools.admin.command_table import FLAG, VALUE, Command, Option
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.jackson_rules import gson

_INDENT = Option("-i --indent", "over several lines", FLAG)


def _show(path: str, invocation: Invocation) -> None:
    stats = invocation.get(path)
    if invocation.form != TEXT_FORMAT:
        invocation.show(stats)
    else:
        invocation.say(gson(stats, "  " if invocation["indent"] else ""))


def _connections(invocation: Invocation) -> None:
    _show("/proxy-stats/connections", invocation)


def _topics(invocation: Invocation) -> None:
    _show("/proxy-stats/topics", invocation)


COMMANDS = (
    Command("connections", "Shows the connections of a proxy.", _connections, (), (_INDENT,), VALUE, examples=("-i",)),
    Command("topics", "Shows the topics of a proxy.", _topics, (), (_INDENT,), VALUE, examples=("-i",)),
)
