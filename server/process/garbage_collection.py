"""Exempts the objects that live as long as the process from Python's garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
    the start and free some hundred objects."""
    gc.freeze()
