"""Pauses of the garbage collector."""

import gc
import threading
from collections.abc import Callable

import pytest

from magnetar.server.process.garbage_collection import no_collections


def test_the_collector_is_off_for_the_block_and_on_after_it() -> None:
    with no_collections(60):
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), no_collections(60):
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_block_that_hangs_does_not_keep_the_collector_off(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[float, Callable[[], None]]] = []

    class Timer(threading.Timer):
        """A timer that the test runs out."""

        def start(self) -> None:
            timers.append((self.interval, self.function))

    monkeypatch.setattr(threading, "Timer", Timer)
    with no_collections(5):
        ((seconds, run_out),) = timers
        assert seconds == 5
        run_out()
        assert gc.isenabled()
