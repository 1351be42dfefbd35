"""`magnetar config`: tells about configuration keys: default, unit, effect, and whether they change at run time."""

import argparse
import json
import shutil
import sys
import textwrap
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands
    from magnetar.server.tools.configuration.key_reference import KeyEntry

EXAMPLES = """\
examples:
  magnetar config                                      # all keys with their defaults
  magnetar config managedLedgerCacheSizeMB             # one key
  magnetar config --program bookie -o json             # all keys of magnetar bookie, for programs
"""
PROGRAMS = ("standalone", "broker", "bookie", "autorecovery")


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "config",
        summary="tell what a configuration key does",
        description="Tells the default, unit and effect of configuration keys. Reads no file and asks no server.",
        epilog=EXAMPLES,
    )
    parser.add_argument("key", nargs="?", metavar="KEY", help="a key of broker.conf, standalone.conf or bk_server.conf")
    parser.add_argument("--program", choices=PROGRAMS, help="only the keys that this program obeys")
    parser.add_argument("-o", "--output", default="text", choices=["text", "json"])
    parser.add_argument("--page", action="store_true", help="print the page docs/CONFIGURATION.md")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.tools.configuration.key_page import page
    from magnetar.server.tools.configuration.key_reference import entries, likely_key, without_effect

    if arguments.page:
        print(page(), end="")
        return 0
    chosen = [
        entry
        for entry in entries()
        if arguments.key in (None, entry.name) and arguments.program in (None, entry.program)
    ]
    if chosen:
        _print(chosen, as_json=arguments.output == "json", is_list=arguments.key is None)
        return 0
    elsewhere = [entry.program for entry in entries() if entry.name == arguments.key]
    why = without_effect(arguments.key)
    if elsewhere:
        text = f"{arguments.key} is a key of {', '.join(elsewhere)} only"
    elif why is not None:
        text = f"{arguments.key} has no effect: {why}"
    else:
        text = f"there is no key {arguments.key}{likely_key(arguments.key)}"
    print(f"magnetar config: {text}", file=sys.stderr)
    return 1


def _print(chosen: "list[KeyEntry]", *, as_json: bool, is_list: bool) -> None:
    if as_json:
        print(json.dumps([asdict(entry) for entry in chosen], indent=2))
        return
    if is_list:
        for entry in chosen:
            print(f"{entry.program:<12} {entry.name}={entry.default}")
        return
    width = min(shutil.get_terminal_size().columns, 120)
    for entry, programs in _by_answer(chosen).items():
        told = "; ".join([", ".join(programs), entry.accepts, *["dynamic"] * entry.is_dynamic])
        print(f"{entry.name}={entry.default}   ({told})")
        print(textwrap.fill(entry.effect, width, initial_indent="  ", subsequent_indent="  "))


def _by_answer(chosen: "list[KeyEntry]") -> "dict[KeyEntry, list[str]]":
    """Returns the programs of each answer, because most keys mean the same in several programs. The entries that are
    the dictionary's keys name no program."""
    programs: dict[KeyEntry, list[str]] = {}
    for entry in chosen:
        programs.setdefault(replace(entry, program=""), []).append(entry.program)
    return programs
