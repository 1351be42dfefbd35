"""Exhaustion is said once a minute: out of file descriptors, of space on a disk, of bookies that take writes, or of
memory.

A process that has run out of something fails at every topic and every connection, and as often as each of them tries
again. Thousands of equal lines would hide the first one, and fill the disk that may be the one that is full.
"""

import errno
import logging
import os
import time
from collections.abc import Callable

SECONDS_BETWEEN_LINES = 60.0
KINDS_MAX = 1_000
"""How many kinds of lines are remembered. When there are more, all of them are forgotten, and said once more."""

EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM))
_STORAGE_TEXTS = ("the disk is ", "no writable bookie", "writable bookies")
"""The words of `DiskUsage.sentence`, and of a placement that finds too few bookies: one of them, or all of them, are
full, and each topic tries again every few seconds."""
_TEXTS = (*(os.strerror(code) for code in EXHAUSTED), *_STORAGE_TEXTS)


class ExhaustionFilter(logging.Filter):
    """Lets one record of a kind pass in a minute. A kind is an exhausted resource and a message before its values are
    filled in, so different troubles from one exhaustion are all told. The next record of the kind that passes says how
    many did not. Records below WARNING, and records about anything else, always pass."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s` returns seconds of a monotonic clock."""
        super().__init__()
        self._now_s = now_s
        self._said: dict[tuple[str, str, str], tuple[float, int]] = {}
        """Resource, logger and message -> when it was said, and how many records were kept back since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by the handler for each record; returns whether the record is written."""
        resource = _exhausted(record) if record.levelno >= logging.WARNING else None
        if resource is None:
            return True
        kind, now_s = (resource, record.name, str(record.msg)), self._now_s()
        said_s, kept_back = self._said.get(kind, (float("-inf"), 0))
        if now_s - said_s < SECONDS_BETWEEN_LINES:
            self._said[kind] = said_s, kept_back + 1
            return False
        if len(self._said) >= KINDS_MAX:
            self._said.clear()
        self._said[kind] = now_s, 0
        if kept_back:
            record.msg, record.args = "%s (and %d lines like it before)", (record.getMessage(), kept_back)
        return True


def _exhausted(record: logging.LogRecord) -> str | None:
    """Returns the words for the resource whose exhaustion the record reports, or None."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return os.strerror(error.errno)
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM)
    text = record.getMessage()
    return next((each for each in _TEXTS if each in text), None)
