"""File descriptors of the process: as many as the system allows, and some always left for the server's own files.

Each connection takes one. If connections took the last, the next journal or entry log could not be opened, and the
server would have to stop for what a client did. So connections are refused while few are left; others go on.
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
"""More than connections that one process can serve; some systems say "unlimited"."""
RESERVE_MAX = 128
"""What stays for files: journals, entry logs, the index, the metadata."""
RESERVE_SHARE = 4
"""At most one in so many, where the limit is low."""
SECONDS_BETWEEN_WARNINGS = 60.0


def raise_limit() -> None:
    """To what the system lets this process have, as Java's virtual machine does for Apache's servers."""
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

    @property
    def limit(self) -> int:
        """How many this process may have; WANTED_MAX where nothing limits them."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return WANTED_MAX if limit == resource.RLIM_INFINITY else limit

    def has_room(self) -> bool:
        """Asked for each connection that was accepted."""
        limit = self.limit
        if _next_free() < limit - min(RESERVE_MAX, limit // RESERVE_SHARE):
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
    """The lowest number that is free, which the next file would get; infinite where there is none."""
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
"""Of this process."""
