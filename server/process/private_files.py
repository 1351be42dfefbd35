"""What a server writes is messages, schemas and permissions: files and folders of its own user alone."""

import os
from pathlib import Path

OTHERS = 0o007
OWN_NAMES = ("journal", "ledgers", "metadata.sqlite*")
"""In the data folder of a standalone server."""


def make_files_private() -> None:
    """All that this process makes from now on is 0600 or 0700, whichever library makes it."""
    os.umask(0o077)


def keep_from_others(data_dir: Path) -> None:
    """Closes what a former version made for everybody to read. A group's rights stay, since somebody gave them on
    purpose, and so does the data folder's own mode, which the operator may have made."""
    for path in (each for name in OWN_NAMES for each in data_dir.glob(name)):
        mode = path.stat().st_mode
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
