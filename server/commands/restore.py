"""`magnetar restore`: makes a data folder of a backup, or only verifies the backup."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command
from pulsar_proto.counted import counted

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

EXAMPLES = """\
examples:
  magnetar restore --verify-only /backups/pulsar                     # reads every byte, changes nothing
  magnetar restore /backups/pulsar --data-dir /var/lib/pulsar-restored
  magnetar standalone --data-dir /var/lib/pulsar-restored
"""


def add_parser(commands: "Commands") -> None:
    parser = add_command(
        commands,
        "restore",
        summary="make a standalone server's data folder of a backup",
        description="Verifies a backup, and makes a data folder of it, on which magnetar standalone starts. Exit code "
        "1 when the backup is damaged; every damaged file is told with the offset.",
        epilog=EXAMPLES,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the backup")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--data-dir", type=Path, metavar="NEW", help="the data folder to make: new or empty")
    target.add_argument("--verify-only", action="store_true", help="only read the backup and compare its checksums")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from magnetar.metadata.errors import MetadataError
    from magnetar.server.backup.backup_errors import BackupError
    from magnetar.server.process.data_folder_lock import AlreadyInUseError
    from magnetar.server.process.running import sentence
    from magnetar.storage.bookie.bookie_errors import BookieStartError

    try:
        return _verify(arguments.folder) if arguments.verify_only else _restore(arguments.folder, arguments.data_dir)
    except (BackupError, AlreadyInUseError, BookieStartError, MetadataError, OSError) as error:
        print(f"magnetar: {sentence(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        print("magnetar: interrupted", file=sys.stderr)
    return 1


def _verify(folder: Path) -> int:
    from magnetar.server.backup.backup_folder import kept_from_backups
    from magnetar.server.backup.verifying import verify

    with kept_from_backups(folder):
        manifest, damages = verify(folder)
    for damage in damages:
        print(f"magnetar: {folder}: {damage}", file=sys.stderr)
    if damages:
        return 1
    entries = sum(copy.entries for copy in manifest.ledgers.values())
    print(
        f"backup {manifest.generation} of cluster {manifest.cluster} as of {manifest.time} is sound: "
        f"{counted(len(manifest.ledgers), 'ledger')} with {counted(entries, 'entry', 'entries')}"
    )
    return 0


def _restore(folder: Path, data_dir: Path) -> int:
    import asyncio

    from magnetar.server.backup.receiving import Progress
    from magnetar.server.backup.restoring import restore
    from magnetar.server.process.private_files import make_files_private
    from magnetar.server.programs.storage_start import BOOKIE_ID

    make_files_private()
    manifest = asyncio.run(restore(folder, data_dir, BOOKIE_ID, Progress.on_terminal()))
    print(
        f"{data_dir} is made of backup {manifest.generation} of cluster {manifest.cluster}, as of {manifest.time}: "
        f"start it with magnetar standalone --data-dir {data_dir}"
    )
    return 0
