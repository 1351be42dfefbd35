"""Exempts the objects that live as long as the process from Python's garbage collection, and pauses it."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS_MAX = 5_000
"""How many new objects start a garbage collection. With Python's 700, the objects of the messages that are under way
survive two collections and count as old; each 25 % more old objects start a full collection, which takes a tenth of a
second with a thousand topics. With 5,000, most of these objects are gone before anything looks at them: publishing to a
thousand topics cost 15 % less CPU, and no collection of young objects took 10 ms."""


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


@contextmanager
def no_collections(seconds_max: float) -> Iterator[None]:
    """Switches the garbage collector off for the caller's block, on any thread. When the block takes longer than
    `seconds_max`, the collector is switched on before its end, so that a block that hangs does not fill the memory."""
    end = threading.Timer(seconds_max, gc.enable)
    end.daemon = True
    gc.disable()
    end.start()
    try:
        yield
    finally:
        end.cancel()
        gc.enable()
