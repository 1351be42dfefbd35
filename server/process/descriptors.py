"""The file descriptors of the process: this module asks for as many as the system allows, and always leaves some for
the server's own files.

Each connection takes a descriptor. If connections took the last descriptor, the next journal or entry log could not be
opened, and the server would have to stop because of its clients. Therefore, while few descriptors are left, new
connections are refused, and open connections go on.
"""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import time
from collections.abc import Callable
from typing import cast

from magnetar.server.process.rare_warning import RareWarning

log = logging.getLogger(__name__)

WANTED_MAX = 1 << 20
"""The limit that the server asks for when the system says "unlimited": more descriptors than one process can use."""
RESERVE_MAX = 128
"""The number of descriptors that connections leave for files: journals, entry logs, the index, the metadata."""
RESERVE_SHARE = 4
"""When the limit is low, connections leave one descriptor in four for files, instead of RESERVE_MAX."""
RESERVE_UNSEEN_SHARE = 16
"""After a look that found room, connections may take one in so many descriptors of the reserve without another look:
eight of 128. A look opens a file, which costs as much as all else that is done to accept a connection."""
SECONDS_BETWEEN_WARNINGS = 60.0


def raise_limit() -> None:
    """Raises the limit to what the system allows, as Java's virtual machine does for Apache's servers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_MAX if hard == resource.RLIM_INFINITY else min(hard, WANTED_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Descriptors:
    """Says whether a connection may have one of this process's descriptors, and warns once a minute when it may not."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._warning = RareWarning(SECONDS_BETWEEN_WARNINGS, now)
        self._refused = 0
        self._unseen = 0
        """How many further connections may stay without another look."""

    @property
    def limit(self) -> int:
        """How many descriptors this process may have. The value is WANTED_MAX when the system sets no limit."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return WANTED_MAX if limit == resource.RLIM_INFINITY else limit

    def has_room(self) -> bool:
        """Returns whether a connection that was just accepted may stay. The caller asks once for each connection,
        because each answer False is counted and logged."""
        if self._unseen:
            self._unseen -= 1
            return True
        limit = self.limit
        reserve = min(RESERVE_MAX, limit // RESERVE_SHARE)
        if _next_free() < limit - reserve:
            self._unseen = reserve // RESERVE_UNSEEN_SHARE
            return True
        self._refused += 1
        if self._warning.is_due():
            log.warning(
                "out of file descriptors: %d connections refused so far, since few of the %d that this process may "
                "have are left for its files; raise the limit: ulimit -n, LimitNOFILE= of systemd",
                self._refused,
                limit,
            )
        return False


def _next_free() -> float:
    """Returns the lowest free descriptor, which the next file would get, or infinity when no descriptor is free."""
    try:
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return float("inf")
        raise
    os.close(fd)
    return fd


class Refused(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


DESCRIPTORS = Descriptors()
"""The descriptors of this process."""
