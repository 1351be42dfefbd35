"""The parts that the parsers of all commands share: kinds of values, the options of a server, and the look of the
help."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.config.key_kinds import PORT_OFF

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    """The type that `ArgumentParser.add_subparsers` returns."""


def port_number(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port (0 to 65535)")
    return int(text)


def port_or_off(text: str) -> int:
    """Returns the port, or PORT_OFF for the word "off"."""
    return PORT_OFF if text == "off" else port_number(text)


def assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key.strip(), value.strip()


def add_command(
    commands: "Commands", name: str, *, summary: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    """Adds and returns the parser of a subcommand. `summary` stands in the list of commands, and `epilog` is shown
    unchanged. The parser does not accept abbreviated options, because a typo that looks like an abbreviation must not
    start a server."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_server_options(parser: argparse.ArgumentParser, *, conf: str) -> None:
    """Adds the options --conf, --set, --ready-json, --log-level and --log-format. `conf` says which kind of file --conf
    takes."""
    parser.add_argument("--conf", type=Path, metavar="FILE", help=f"a {conf}")
    parser.add_argument(
        "--set", action="append", default=[], type=assignment, metavar="KEY=VALUE", help="overrides a key of --conf"
    )
    parser.add_argument("--ready-json", action="store_true", help="print the ready line as JSON, for programs")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.add_argument(
        "--log-format", default="text", choices=["text", "json"], help="json: each log line is a JSON object"
    )
