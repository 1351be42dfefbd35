"""Full garbage collections: when they are due, and that a server makes them in place of Python."""

import asyncio
import gc
import weakref

import pytest

from magnetar.server.process import garbage_collection
from magnetar.server.process.full_collection_rules import (
    BUSY_GROWTH_BYTES,
    QUIET_CPU_SHARE,
    QUIET_GROWTH_BYTES,
    FullCollections,
)
from magnetar.server.process.garbage_collection import NEVER, FullCollector, resident_bytes
from tests.server.fakes import until

QUIET, BUSY = QUIET_CPU_SHARE, 2 * QUIET_CPU_SHARE
GIB = 1 << 30


def test_a_quiet_server_collects_when_its_memory_has_grown_by_a_quarter() -> None:
    rules = FullCollections(GIB)
    assert not rules.is_due(GIB + GIB // 4, QUIET)
    assert rules.is_due(GIB + GIB // 4 + 1, QUIET)
    assert not rules.is_due(GIB + GIB // 4 + 1, BUSY)


def test_a_busy_server_collects_when_its_memory_has_doubled() -> None:
    rules = FullCollections(GIB)
    assert not rules.is_due(2 * GIB, BUSY)
    assert rules.is_due(2 * GIB + 1, BUSY)


def test_a_small_server_collects_when_it_has_grown_by_megabytes() -> None:
    rules = FullCollections(1 << 20)
    assert not rules.is_due((1 << 20) + QUIET_GROWTH_BYTES, QUIET)
    assert rules.is_due((1 << 20) + QUIET_GROWTH_BYTES + 1, QUIET)
    assert not rules.is_due((1 << 20) + BUSY_GROWTH_BYTES, BUSY)
    assert rules.is_due((1 << 20) + BUSY_GROWTH_BYTES + 1, BUSY)


def test_growth_counts_from_the_last_collection_or_from_the_least_memory_since() -> None:
    rules = FullCollections(GIB)
    rules.done(4 * GIB)
    assert not rules.is_due(5 * GIB, QUIET)
    assert not rules.is_due(2 * GIB, QUIET)
    assert rules.is_due(3 * GIB, QUIET)


class Ring:
    """An object that refers to itself, so that only a garbage collection frees it."""

    def __init__(self) -> None:
        self.itself = self


async def test_old_garbage_is_freed_when_the_memory_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "LOOK_SECONDS", 0.001)
    memory = GIB
    ring = Ring()
    gc.collect()  # The ring is an old object now.
    before = gc.get_threshold()
    with FullCollector(asyncio.get_running_loop(), lambda: memory, lambda: 0.0):
        assert gc.get_threshold()[2] == NEVER
        gone = weakref.ref(ring)
        del ring
        assert gone() is not None
        memory = 2 * GIB
        await until(lambda: gone() is None)
    assert gc.get_threshold() == before


def test_the_memory_of_this_process_is_known() -> None:
    assert 1 << 20 < resident_bytes() < 1 << 40
