"""The folder for what tests fetch or build once for each user, outside the project."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Returns the folder, which may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magnetar"


@contextmanager
def locked_cache(name: str) -> Iterator[Path]:
    """Yields the folder while no other test run has the lock of `name`, so that test runs in parallel fetch once."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache
