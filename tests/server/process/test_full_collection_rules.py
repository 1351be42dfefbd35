"""When a server looks at all of its objects for garbage."""

from magnetar.server.process.full_collection_rules import (
    BUSY_GROWTH_BYTES,
    QUIET_CPU_SHARE,
    QUIET_GROWTH_BYTES,
    FullCollections,
)

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
