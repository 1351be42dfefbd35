"""Exempts the objects that live as long as the process, or as long as a topic, from Python's garbage collection.

A full collection looks at every object that it is not spared, and the event loop stands still meanwhile: for most of a
second with ten thousand topics. In a broker, therefore, a full collection looks only at what is new since the one
before: what it leaves alive is frozen (`gc.freeze`). A frozen object still dies when nothing refers to it. Only frozen
objects that refer to each other in a circle stay when they are not needed any more, as the parts of a topic do. So the
topics and subscriptions that ended are counted, and when as many have ended as there are, a full collection looks at
everything. Whatever else may be left in circles is found every few hours.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

YOUNG_OBJECTS_MAX = 5_000
"""How many new objects start a garbage collection. With Python's 700, the objects of the messages that are under way
survive two collections and count as old; each 25 % more old objects start a full collection, which takes a tenth of a
second with a thousand topics."""

BROKER_THRESHOLDS = (20_000, 1, 0)
"""How many new objects of a broker start a garbage collection, and how many collections of a generation may pass before
one of the next generation. The messages that are under way to a thousand topics have more than 5,000 objects and fewer
than 20,000: collections took a sixth of the CPU time of publishing to them with 5,000, and a fiftieth with 20,000. A
full collection has some 80,000 objects to look at, which takes it 10 to 20 ms; with Python's two tens it has two
million."""

FULL = 2
"""The oldest generation in Python's callbacks."""

ENDED_MIN = 1_000
"""How many topics and subscriptions end at least before all objects are looked at. Their parts have 10 MB."""

LOOK_SECONDS = 4 * 3600.0
LOOK_SECONDS_FOR_EACH = 1.0
"""All objects are looked at again after LOOK_SECONDS, and LOOK_SECONDS_FOR_EACH more for each topic and subscription,
because the look takes some 30 µs for each of them."""


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

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.living = 0
        """How many topics and subscriptions there are."""
        self._ended = 0
        self._now = now
        self._looked_at_s = now()

    def began(self) -> None:
        """Called for each new topic or subscription."""
        self.living += 1

    def ended(self, count: int = 1) -> None:
        """Called when topics or subscriptions are not used any more, after a call of `began` for each."""
        self.living -= count
        self._ended += count

    @property
    def are_due(self) -> bool:
        """Whether the next full collection is to look at all objects."""
        seconds = LOOK_SECONDS + LOOK_SECONDS_FOR_EACH * self.living
        return self._ended >= max(ENDED_MIN, self.living) or self._now() - self._looked_at_s >= seconds

    def collector_runs(self, phase: str, info: dict[str, int]) -> None:
        """One of `gc.callbacks`, which Python calls right before and right after a collection."""
        if info["generation"] != FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif self.are_due:
            self._ended = 0
            self._looked_at_s = self._now()
            gc.unfreeze()


OLD_OBJECTS = OldObjects()
"""The old objects of this process."""


def freeze_start() -> None:
    """Exempts all objects that exist when a server has started. They are not collected before: that would take 20 ms of
    the start and free some hundred objects. From now on collections are less frequent (`YOUNG_OBJECTS_MAX`)."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])


def freeze_broker() -> None:
    """Exempts all objects that exist when a broker has started, and from now on the old ones, too (`OldObjects`)."""
    gc.freeze()
    gc.set_threshold(*BROKER_THRESHOLDS)
    if OLD_OBJECTS.collector_runs not in gc.callbacks:
        gc.callbacks.append(OLD_OBJECTS.collector_runs)


def collect_no_more() -> None:
    """Switches garbage collection off in a process that ends, so that no collection delays its end."""
    gc.disable()
