"""Exempts the objects that live as long as the process, or as long as a topic, from Python's garbage collection.

A full collection looks at every object that it is not spared, and the event loop stands still meanwhile: for most of a
second with ten thousand topics. Therefore a full collection looks only at what is new since the one before: what it
leaves alive is frozen (`gc.freeze`). A frozen object still dies when nothing refers to it. Only frozen objects that
refer to each other in a circle stay when they are not needed any more, as the parts of a topic do. So the topics and
subscriptions that ended are counted, and when as many have ended as there are, a full collection looks at everything.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS_MAX = 20_000
"""How many new objects start a garbage collection. The messages that are under way to a thousand topics have more than
5,000 objects and fewer than this: collections took a sixth of the CPU time of publishing to them with 5,000, and a
fiftieth with 20,000."""

COLLECTIONS_MAX = (1, 0)
"""How many collections of a generation may pass before one of the next generation. A full collection therefore has some
80,000 objects to look at, which takes it 10 to 20 ms; with Python's 10 and 10 it has two million."""

FULL = 2
"""The oldest generation in Python's callbacks."""

ENDED_MIN = 1_000
"""How many topics and subscriptions end at least before all objects are looked at. Their parts have 10 MB."""


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


class OldObjects:
    """Freezes what a full collection leaves alive, and decides when the frozen objects are looked at again."""

    def __init__(self) -> None:
        self.living = 0
        """How many topics and subscriptions there are."""
        self._ended = 0

    def began(self, count: int = 1) -> None:
        """Called for each new topic or subscription."""
        self.living += count

    def ended(self, count: int = 1) -> None:
        """Called when topics or subscriptions are not used any more, after as many calls of `began`."""
        self.living -= count
        self._ended += count

    @property
    def are_due(self) -> bool:
        """Whether the next full collection is to look at all objects."""
        return self._ended >= max(ENDED_MIN, self.living)

    def collector_runs(self, phase: str, info: dict[str, int]) -> None:
        """One of `gc.callbacks`, which Python calls right before and right after a collection."""
        if info["generation"] != FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif self.are_due:
            self._ended = 0
            gc.unfreeze()


OLD_OBJECTS = OldObjects()
"""The old objects of this process."""


def freeze_start() -> None:
    """Exempts all objects that exist when a server has started. They are not collected before: that would take 20 ms of
    the start and free some hundred objects. From now on young objects are collected less often, and old ones are
    exempt, too (`OldObjects`)."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, *COLLECTIONS_MAX)
    gc.callbacks.append(OLD_OBJECTS.collector_runs)


def collect_no_more() -> None:
    """Switches garbage collection off in a process that ends, so that no collection delays its end."""
    gc.disable()
