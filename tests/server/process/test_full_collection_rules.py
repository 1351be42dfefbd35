"""When a server looks at all of its objects for garbage."""

from magnetar.server.process.full_collection_rules import (
    BUSY_GROWTH_BYTES,
    PATIENCE_SECONDS,
    QUIET_CPU_SHARE,
    STILL_GROWTH_BYTES,
    STILL_SECONDS,
    FullCollections,
)

GIB = 1 << 30
STILL = (0, QUIET_CPU_SHARE)
"""What a server that nobody uses shows: its count of uses and its share of a core."""


def rules_of(memory_bytes: int) -> FullCollections:
    """Returns the rules of a server that was in use at the time 0."""
    return FullCollections(0, memory_bytes)


def test_a_still_server_collects_when_its_memory_has_grown_by_a_quarter() -> None:
    rules = rules_of(GIB)
    assert not rules.is_due(STILL_SECONDS, GIB + GIB // 4, *STILL)
    assert rules.is_due(STILL_SECONDS, GIB + GIB // 4 + 1, *STILL)


def test_a_small_server_collects_when_it_has_grown_by_megabytes() -> None:
    rules = rules_of(1 << 20)
    assert not rules.is_due(STILL_SECONDS, (1 << 20) + STILL_GROWTH_BYTES, *STILL)
    assert rules.is_due(STILL_SECONDS, (1 << 20) + STILL_GROWTH_BYTES + 1, *STILL)


def test_a_server_is_still_some_seconds_after_its_last_use() -> None:
    rules = rules_of(GIB)
    assert not rules.is_due(STILL_SECONDS, 2 * GIB, 1, 0), "a message has just come"
    assert not rules.is_due(2 * STILL_SECONDS - 0.1, 2 * GIB, 1, 0)
    assert rules.is_due(2 * STILL_SECONDS, 2 * GIB, 1, 0)


def test_a_server_at_work_is_not_still() -> None:
    rules = rules_of(GIB)
    assert not rules.is_due(STILL_SECONDS, 2 * GIB, 0, QUIET_CPU_SHARE * 1.1)
    assert not rules.is_due(2 * STILL_SECONDS - 0.1, 2 * GIB, *STILL)
    assert rules.is_due(2 * STILL_SECONDS, 2 * GIB, *STILL)


def test_a_message_now_and_then_keeps_the_server_from_collecting() -> None:
    rules = rules_of(GIB)
    times = [number * STILL_SECONDS / 2 for number in range(100)]
    assert not any(rules.is_due(now_s, 2 * GIB, number, 0) for number, now_s in enumerate(times))


def test_a_server_that_is_never_still_collects_when_its_memory_has_been_doubled_for_long() -> None:
    rules = rules_of(GIB)
    assert not rules.is_due(1, 2 * GIB + 1, 1, 1)
    assert not rules.is_due(PATIENCE_SECONDS, 2 * GIB + 1, 2, 1)
    assert rules.is_due(PATIENCE_SECONDS + 1, 2 * GIB + 1, 3, 1)
    rules.done(2 * GIB + 1)
    assert not rules.is_due(2 * PATIENCE_SECONDS + 2, 2 * GIB + 1, 4, 1)


def test_memory_that_was_freed_meanwhile_does_not_count_as_doubled_for_long() -> None:
    rules = rules_of(GIB)
    assert not rules.is_due(1, 2 * GIB + 1, 1, 1)
    assert not rules.is_due(2, 2 * GIB, 2, 1)
    assert not rules.is_due(PATIENCE_SECONDS + 1, 2 * GIB + 1, 3, 1)
    assert rules.is_due(2 * PATIENCE_SECONDS + 1, 2 * GIB + 1, 4, 1)


def test_a_small_server_that_is_never_still_has_to_grow_by_hundreds_of_megabytes() -> None:
    rules = rules_of(1 << 20)
    for number, now_s in enumerate((1, PATIENCE_SECONDS + 1)):
        assert not rules.is_due(now_s, (1 << 20) + BUSY_GROWTH_BYTES, number + 1, 1)


def test_growth_counts_from_the_last_collection_or_from_the_least_memory_since() -> None:
    rules = rules_of(GIB)
    rules.done(4 * GIB)
    assert not rules.is_due(STILL_SECONDS, 5 * GIB, *STILL)
    assert not rules.is_due(STILL_SECONDS, 2 * GIB, *STILL)
    assert rules.is_due(STILL_SECONDS, 3 * GIB, *STILL)
