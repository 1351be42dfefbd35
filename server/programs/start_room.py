"""The sentence about a start that a full disk has stopped."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from magnetar.server.process.running import sentence
from magnetar.storage.bookie.reserve import BYTES_MAX

_NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "disk is full")
"""The words for a disk without room: those of the operating system, which RocksDB repeats, and those of SQLite."""


def start_sentence(error: Exception, folders: Iterable[Path | str]) -> str:
    """Returns the sentence about an error that stopped the start of a server with these folders. If a disk had no room,
    the sentence also says how much room each folder's disk has, and how much a start needs."""
    text = sentence(error)
    if not any(words in text for words in _NO_ROOM):
        return text
    found = ", ".join(f"{folder} has {_free_kb(folder)} KB free" for folder in folders if os.path.exists(folder))
    return f"{text}: a start needs up to {BYTES_MAX >> 20} MB on the disk, make room: {found}"


def _free_kb(folder: Path | str) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize >> 10
