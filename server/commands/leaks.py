"""`magnetar leaks`: finds ledgers and records of a Pulsar cluster that nothing refers to any more, and removes them."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command, assignment
from magnetar.server.tools.connection.shared_options import DESTINATION, add_shared_options

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

HOURS_MAX = 24 * 366
GRACE_HOURS = 24
SECOND_LOOK_HOURS = 1
PLACES = "--metadata-store (a cluster), --data-dir (a stopped standalone server), --admin-url (a running one)"
WRONG_USAGE = 2

EPILOG = """\
examples:
  magnetar leaks find --metadata-store zk:zk1:2181,zk2:2181
  magnetar leaks explain 12345 --metadata-store zk:zk1:2181
  magnetar leaks backup leaks-of-monday --entries --metadata-store zk:zk1:2181
  magnetar leaks remove leaks-of-monday --metadata-store zk:zk1:2181
  magnetar leaks restore leaks-of-monday --metadata-store zk:zk1:2181
  magnetar leaks find --data-dir data                  # a standalone server that is stopped
  magnetar leaks find --admin-url http://localhost:8080                  # one that runs; its backups have names

If several clusters keep their ledgers in the same bookies, give --metadata-store for each of them.
exit codes: 0 nothing found, or all done; 1 something found, or not all done; 2 wrong usage; 3 failed.
"""


def add_parser(commands: "Commands") -> None:
    leaks = add_command(
        commands,
        "leaks",
        summary="find and remove ledgers that nothing refers to",
        description="Finds, explains, backs up, removes and restores ledgers and records that nothing refers to.",
        epilog=EPILOG,
    )
    verbs = leaks.add_subparsers(dest="verb", required=True, metavar="VERB")
    find = _add_verb(verbs, "find", "Lists what nothing refers to, and references to ledgers that are gone.")
    find.add_argument("--from-bookies", action="store_true", help="ask bookies for the sizes of open ledgers")
    explain = _add_verb(verbs, "explain", "Says who refers to a ledger, or why nothing does.")
    explain.add_argument("subject", metavar="LEDGER|PATH", help="a ledger's id, or the path of a record")
    backup = _add_verb(verbs, "backup", "Copies the records that `find` would list into a folder.")
    _folder(backup)
    backup.add_argument("--entries", action="store_true", help="copy the ledgers' entries, too")
    remove = _add_verb(verbs, "remove", "Removes what a backup holds and a second look still finds.")
    _folder(remove)
    _force(remove)
    remove.add_argument(
        "--second-look-hours",
        type=_hours,
        default=SECOND_LOOK_HOURS,
        metavar="N",
        help=f"how old the backup has to be ({SECOND_LOOK_HOURS})",
    )
    restore = _add_verb(verbs, "restore", "Puts back what was removed.")
    _folder(restore)
    _force(restore)


def _add_verb(verbs: "Commands", name: str, description: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=description, description=description, allow_abbrev=False)
    place = parser.add_argument_group("where to look")
    where = place.add_mutually_exclusive_group()
    where.add_argument(
        "-md",
        "--metadata-store",
        action="append",
        metavar="URL",
        help="a cluster's metadata store, as in zk:h1:2181,h2:2181/chroot; once for each cluster on the bookies",
    )
    where.add_argument("--data-dir", type=Path, metavar="DIR", help="the data folder of a stopped standalone server")
    place.add_argument(
        "-cms",
        "--configuration-metadata-store",
        dest="configuration_store",
        metavar="URL",
        help="the store that has tenants and namespaces, if that is another one",
    )
    place.add_argument(
        "--metadata-service-uri",
        dest="uri",
        metavar="URI",
        help="the ledgers, as in zk://h1:2181;h2:2181/ledgers; those of the first metadata store if it is not given",
    )
    place.add_argument("--conf", type=Path, metavar="FILE", help="a bk_server.conf, or the server's standalone.conf")
    place.add_argument(
        "--set",
        dest="overrides",
        action="append",
        type=assignment,
        metavar="KEY=VALUE",
        help="overrides a key of --conf",
    )
    place.add_argument(
        "--all-clusters-given",
        action="store_true",
        help="no other cluster uses these ledgers: those of unknown tenants are orphans, too",
    )
    parser.add_argument(
        "--grace-hours",
        type=_hours,
        default=GRACE_HOURS,
        metavar="N",
        help=f"how old ledgers and records have to be; longer than any compaction ({GRACE_HOURS})",
    )
    add_shared_options(parser)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="(text)")
    parser.add_argument("--log-level", default="ERROR", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.set_defaults(run=run)
    return parser


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="the folder of the backup; its name, for a server that runs"
    )


def _force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--force", action="store_true", help="do not ask")


def _hours(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > HOURS_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of hours from 0 to {HOURS_MAX}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.programs.leaks.leak_running import run_leaks, run_leaks_remotely

    flags: dict[str, str] = getattr(arguments, DESTINATION)
    is_remote = bool(flags.keys() & {"webServiceUrl", "context"})
    if is_remote + bool(arguments.metadata_store) + (arguments.data_dir is not None) != 1:
        print(f"magnetar leaks {arguments.verb}: give one of {PLACES}", file=sys.stderr)
        return WRONG_USAGE
    if is_remote:
        return run_leaks_remotely(arguments, flags)

    arguments.json = arguments.output == "json"
    if arguments.metadata_store and arguments.uri is None:
        arguments.uri = f"metadata-store:zk:{arguments.metadata_store[0].removeprefix('zk:')}"
    return run_leaks(arguments)
