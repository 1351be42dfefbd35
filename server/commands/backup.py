"""`magnetar backup`: a consistent copy of a running standalone server, in a folder of this machine."""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from magnetar.server.tools.connection.shared_options import DESTINATION, add_shared_options

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar backup /backups/pulsar                                    # the server at http://127.0.0.1:8080
  magnetar backup /backups/pulsar --admin-url https://pulsar.example:8443 --token-file admin.token
  magnetar backup /backups/pulsar --full                             # reads everything anew
  magnetar backup /backups/pulsar --max-rate 20                      # 20 MB a second, easy on a busy server
  magnetar restore --verify-only /backups/pulsar
  magnetar restore /backups/pulsar --data-dir /var/lib/pulsar-restored

The next backup into the same folder reads only what is new. Until it is whole and verified, the folder keeps the one
before.
"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "backup",
        summary="copy a running standalone server into a folder",
        description="Copies the metadata and all messages of a running standalone server into a folder. Clients go on "
        "meanwhile. The caller must be a superuser, if the server asks who calls.",
        epilog=EXAMPLES,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the backup: new, empty, or a backup")
    parser.add_argument("--full", action="store_true", help="read everything anew instead of only what is new")
    parser.add_argument(
        "--max-rate", type=_megabytes, default=math.inf, metavar="MB", help="read at most so many megabytes a second"
    )
    add_shared_options(parser)
    parser.set_defaults(run=run)


def _megabytes(text: str) -> float:
    """Returns a number of megabytes in bytes. Raises ArgumentTypeError for anything but a number above 0."""
    try:
        size = float(text) * 1e6
    except ValueError:
        size = 0
    if not size > 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of megabytes above 0")
    return size


def run(arguments: argparse.Namespace) -> int:
    from magnetar.server.backup.backup_errors import BackupError
    from magnetar.server.backup.receiving import Progress, make_backup, told, warnings
    from magnetar.server.process.running import sentence
    from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
    from magnetar.server.tools.connection.http_client import AdminHttp
    from magnetar.server.tools.connection.settings import load_settings

    folder: Path = arguments.folder
    try:
        http = AdminHttp(load_settings(getattr(arguments, DESTINATION), os.environ))
        outcome = make_backup(
            http,
            folder,
            is_full=arguments.full,
            progress=Progress.on_terminal(),
            bytes_per_second=arguments.max_rate,
        )
    except ConnectionSettingsError as error:
        print(f"magnetar: {error}", file=sys.stderr)
        return 2
    except (BackupError, AdminCallError, OSError) as error:
        print(f"magnetar: {sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("magnetar: interrupted", file=sys.stderr)
        return 1
    for warning in warnings(outcome):
        print(f"magnetar: {warning}", file=sys.stderr)
    print(told(outcome, folder))
    return 0
