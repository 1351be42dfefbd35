"""What the commands on messages share: kinds of values, options, and how a fault is told."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magnetar.server.tools.connection.shared_options import DESTINATION, add_shared_options

if TYPE_CHECKING:
    from magnetar.server.tools.connection.settings import ConnectionSettings

CONNECTION_EXAMPLE = """
The cluster is that of --service-url, of $MAGNETAR_SERVICE_URL, of the context or of client.conf, else
pulsar://127.0.0.1:6650. The commands need the official client:  pip install 'magnetar[client]'
"""


def kind(name: str) -> Callable[[str], Any]:
    """Returns the argparse type that parses with a function of `quantity_rules`. The rules are imported at use, so that
    --help stays quick."""

    def parse(text: str) -> Any:
        from magnetar.server.tools.messages import quantity_rules

        return parsed(getattr(quantity_rules, name), text)

    return parse


def parsed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a rule makes of a text; its ValueError becomes the sentence that argparse shows."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def position(text: str) -> Any:
    """Parses a position in a topic for argparse."""
    import time

    from magnetar.server.tools.messages.position_rules import parse_position

    return parsed(parse_position, text, int(time.time() * 1000))


def moment_ms(text: str) -> int:
    """Parses a time for argparse, in milliseconds since 1970."""
    from magnetar.server.tools.messages.position_rules import Moment

    found = position(text)
    if not isinstance(found, Moment):
        raise argparse.ArgumentTypeError(f"'{text}' is no time such as 2026-11-24T06:30 or @1763966400000")
    return found.ms


def output_format(text: str) -> str:
    """Checks a format of `-F` for argparse, and returns it."""
    from magnetar.server.tools.messages.output_format_rules import parse_format

    parsed(parse_format, text)
    return text


def separator(text: str) -> bytes:
    """Parses a separator, which may have escapes, for argparse."""
    from magnetar.server.tools.messages.input_line_rules import unescaped

    data: bytes = parsed(unescaped, text)
    return data


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how messages are printed."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "-F", "--format", type=output_format, metavar="FORMAT", help="how to print a message; default: '%%v\\n'"
    )
    form.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="json: an object a line, binary as base64"
    )
    parser.add_argument("--raw", action="store_true", help="do not decode values by their schema")


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of every command on messages."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "--client-log", default="", choices=("DEBUG", "INFO", "WARNING", "ERROR"), help="show the client's own log"
    )
    add_shared_options(parser)


def takes_negative_times(parser: argparse.ArgumentParser) -> None:
    """Lets `--from -1h` be an option with a value. argparse takes whatever begins with a dash for an option, except for
    what this expression matches, which by default are negative numbers."""
    import re

    parser._negative_number_matcher = re.compile(r"^-\d+(\.\d+)?[a-z]*$")


def settings_of(arguments: argparse.Namespace) -> "ConnectionSettings":
    """Returns the settings of the connection. Raises ToolError."""
    from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
    from magnetar.server.tools.connection.settings import load_settings
    from magnetar.server.tools.messages.tool_errors import ToolError

    try:
        return load_settings(getattr(arguments, DESTINATION), os.environ)
    except ConnectionSettingsError as error:
        raise ToolError(str(error)) from None


def run_told(command: str, work: Callable[[], int]) -> int:
    """Runs a command and returns its exit code. A fault is told in one sentence on stderr, with the exit code 1, or 2
    when the options were wrong."""
    from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError
    from magnetar.server.tools.messages.tool_errors import ToolError, UsageError

    try:
        return work()
    except (ToolError, ConnectionSettingsError) as error:
        print(f"magnetar {command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
