"""Switches Python's garbage collector off for a while. Several threads may want it off at the same time: it goes on
when the last of them ends, which a thread that looked at `gc.isenabled` by itself could not know."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_goes_on = False
"""Whether the collector was on before the first of the pauses that are under way."""


def _begin() -> None:
    global _pauses, _goes_on
    with _lock:
        if not _pauses:
            _goes_on = gc.isenabled()
            gc.disable()
        _pauses += 1


def _end() -> None:
    global _pauses
    with _lock:
        _pauses -= 1
        if not _pauses and _goes_on:
            gc.enable()


@contextmanager
def collector_off() -> Iterator[None]:
    """Keeps the collector off for the caller's block, on any thread."""
    _begin()
    try:
        yield
    finally:
        _end()


@contextmanager
def no_collections(seconds_max: float) -> Iterator[None]:
    """Keeps the collector off for the caller's block, on any thread, but for at most `seconds_max`, so that a block
    that hangs does not fill the memory."""
    ends = iter((_end,))  # whoever comes first, the timer or the end of the block, ends the pause
    timer = threading.Timer(seconds_max, lambda: next(ends, _nothing)())
    timer.daemon = True
    _begin()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        next(ends, _nothing)()


def _nothing() -> None:
    pass
