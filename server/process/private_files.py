"""Keeps the files of a server from other users, since they hold messages, schemas and permissions."""

import os
from pathlib import Path

OTHERS = 0o007
"""The bits of a file's mode that give rights to users other than the owner and the group."""
OWN_NAMES = ("journal", "ledgers", "metadata.sqlite*")
"""The patterns of the files and folders that a standalone server makes in its data folder."""


def make_files_private() -> None:
    """Makes all files and folders that this process will create 0600 or 0700, whichever library creates them."""
    os.umask(0o077)


def keep_from_others(data_dir: Path) -> None:
    """Takes the rights of other users away from the files that a former version made readable for everybody. The rights
    of the group stay, since somebody must have given them on purpose. The mode of the data folder itself stays, too,
    because the operator may have made the folder."""
    for path in (each for name in OWN_NAMES for each in data_dir.glob(name)):
        mode = path.stat().st_mode
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
