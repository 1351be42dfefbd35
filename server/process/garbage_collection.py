"""Python's garbage collection in a server: the objects that live as long as the process are exempt, and full
collections are made when `full_collection_rules` says so."""

import asyncio
import gc
import logging
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from magnetar.server.process.full_collection_rules import FullCollections

log = logging.getLogger(__name__)

YOUNG_OBJECTS_MAX = 5_000
"""How many new objects start a garbage collection. With Python's 700, the objects of the messages that are under way
survive two collections and count as old; each 25 % more old objects start a full collection, which takes a tenth of a
second with a thousand topics. With 5,000, most of these objects are gone before anything looks at them: publishing to a
thousand topics cost 15 % less CPU, and no collection of young objects took 10 ms."""

YOUNG_COLLECTIONS_MAX = 2
"""After more collections of new objects than this, those that survived them are looked at once more. With Python's 10,
these are 50,000 objects, which take 15 ms."""

NEVER = 2**31 - 1
"""The threshold that keeps Python from making full collections by itself."""

LOOK_SECONDS = 1.0
"""How often a server looks whether a full collection is due."""

SLOW_SECONDS = 0.1
"""A full collection that took longer is logged at INFO."""


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Lets the caller import modules without garbage collections, which would take a tenth of the time and find next to
    nothing. At the end all objects that exist are exempt from later collections, because modules stay for ever."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


def freeze_start() -> None:
    """Exempts all objects that exist when a server has started. They are not collected before: that would take 20 ms of
    the start and free some hundred objects. From now on collections are less frequent (`YOUNG_OBJECTS_MAX`)."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])


class FullCollector:
    """Makes the full collections of a server, in place of Python. A context manager, which is entered and left on the
    event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory_bytes: Callable[[], int] | None = None,
        cpu_seconds: Callable[[], float] = time.process_time,
    ) -> None:
        """`memory_bytes` returns the memory of the process, and `cpu_seconds` the CPU time that it has needed."""
        self._loop = loop
        self._memory_bytes = resident_bytes if memory_bytes is None else memory_bytes
        self._cpu_seconds = cpu_seconds
        self._rules = FullCollections(self._memory_bytes())
        self._looked_s, self._cpu_s = loop.time(), cpu_seconds()
        self._timer: asyncio.TimerHandle | None = None
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> Self:
        gc.set_threshold(self._thresholds[0], YOUNG_COLLECTIONS_MAX, NEVER)
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gc.set_threshold(*self._thresholds)

    def _look(self) -> None:
        now_s, cpu_s = self._loop.time(), self._cpu_seconds()
        cpu_share = (cpu_s - self._cpu_s) / max(now_s - self._looked_s, LOOK_SECONDS)
        self._looked_s, self._cpu_s = now_s, cpu_s
        if self._rules.is_due(self._memory_bytes(), cpu_share):
            self._collect()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _collect(self) -> None:
        began_s = time.monotonic()
        found = gc.collect()
        seconds = time.monotonic() - began_s
        level = logging.INFO if seconds > SLOW_SECONDS else logging.DEBUG
        log.log(level, "a full garbage collection found %d objects and took %.0f ms", found, seconds * 1000)
        self._rules.done(self._memory_bytes())


def resident_bytes() -> int:
    """Returns the memory of this process. Where there is no /proc, returns the most that it has ever been."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
