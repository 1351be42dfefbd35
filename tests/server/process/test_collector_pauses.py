"""Pauses of the garbage collector."""

import gc
import threading
from collections.abc import Callable

import pytest

from magnetar.server.process.collector_pauses import collector_off, no_collections


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


def test_the_collector_goes_on_when_the_last_of_several_pauses_ends() -> None:
    first, second = collector_off(), collector_off()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_block_that_hung_leaves_the_pause_of_another_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run_out: list[Callable[[], None]] = []
    monkeypatch.setattr(threading.Timer, "start", lambda timer: run_out.append(timer.function))
    with collector_off():
        with no_collections(5):
            run_out[0]()
            assert not gc.isenabled()
        run_out[0]()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
