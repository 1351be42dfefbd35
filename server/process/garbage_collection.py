"""Python's garbage collection in a server: objects that have lived for a while are exempt from it, and looked at only
when the server's memory has grown and nobody uses the server.

A collection that looks at all objects holds the event loop up: for most of a second with ten thousand topics. Therefore
each of Python's collections looks only at what is new since the one before: what it leaves alive is frozen
(`gc.freeze`). With 20,000 new objects that takes some 6 ms. By Python's own rules each object would be looked at three
times, the last time together with 80,000 others.

A frozen object still dies when nothing refers to it. Only frozen objects that refer to each other in a circle stay when
they are not needed any more. Connections and ledgers form no such circles. The parts of a topic and of a subscription
do, so `left_objects` has the collector look at those again that were closed. `OldObjects` frees whatever else there may
be when `full_collection_rules` says so.
"""

import gc
import logging
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from magnetar.server.process.collector_pauses import collector_off
from magnetar.server.process.full_collection_rules import FullCollections

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

YOUNG_OBJECTS_MAX = 20_000
"""How many new objects start a garbage collection. The messages that are under way to a thousand topics have more than
5,000 objects and fewer than this: collections took a sixth of the CPU time of publishing to them with 5,000, and a
fiftieth with 20,000."""

LOOK_SECONDS = 1.0
"""How often a server looks whether old objects are to be looked at."""

SLOW_SECONDS = 0.1
"""If looking at old objects took longer, the log tells it at INFO."""


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Lets the caller import modules without garbage collections, which would take a tenth of the time and find next to
    nothing. At the end all objects that exist are exempt from later collections, because modules stay for ever."""
    with collector_off():
        try:
            yield
        finally:
            gc.freeze()


def freeze_start() -> None:
    """Exempts all objects that exist when a server has started. They are not collected before: that would take 20 ms of
    the start and free some hundred objects. From now on young objects are collected less often."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


def collect_no_more() -> None:
    """Switches garbage collection off in a process that ends, so that no collection delays its end."""
    gc.disable()


class OldObjects:
    """Freezes what collections leave alive, and looks at all objects when the memory has grown. A context manager,
    which is entered and left on the event loop's thread."""

    def __init__(
        self,
        loop: "asyncio.AbstractEventLoop",
        uses: Callable[[], int],
        memory_bytes: Callable[[], int] | None = None,
        cpu_seconds: Callable[[], float] = time.process_time,
    ) -> None:
        """`uses` returns a number that grows when clients use the server, `memory_bytes` the memory of the process, and
        `cpu_seconds` the CPU time that it has needed."""
        self._loop = loop
        self._uses = uses
        self._memory_bytes = resident_bytes if memory_bytes is None else memory_bytes
        self._cpu_seconds = cpu_seconds
        self._rules = FullCollections(loop.time(), self._memory_bytes())
        self._looked_s, self._cpu_s = loop.time(), cpu_seconds()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        gc.callbacks.append(self._collector_runs)
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gc.callbacks.remove(self._collector_runs)

    def _collector_runs(self, phase: str, info: dict[str, int]) -> None:
        """Called by Python right before and right after each collection."""
        if phase == "stop":
            gc.freeze()

    def _look(self) -> None:
        now_s, cpu_s = self._loop.time(), self._cpu_seconds()
        cpu_share = (cpu_s - self._cpu_s) / max(now_s - self._looked_s, LOOK_SECONDS)
        self._looked_s, self._cpu_s = now_s, cpu_s
        if self._rules.is_due(now_s, self._memory_bytes(), self._uses(), cpu_share):
            self._collect_all()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _collect_all(self) -> None:
        began_s = time.monotonic()
        gc.unfreeze()
        found = gc.collect()
        seconds = time.monotonic() - began_s
        level = logging.INFO if seconds > SLOW_SECONDS else logging.DEBUG
        log.log(level, "looking for garbage among all objects found %d and took %.0f ms", found, seconds * 1000)
        self._rules.done(self._memory_bytes())


def resident_bytes() -> int:
    """Returns the memory of this process. Where there is no /proc, returns the most that it has ever been."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
