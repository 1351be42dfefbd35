"""Old objects are spared by full collections until enough topics and subscriptions have ended."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from magnetar.server.process.garbage_collection import (
    ENDED_MIN,
    FULL,
    LOOK_SECONDS,
    LOOK_SECONDS_FOR_EACH,
    OldObjects,
)

SOME = 3 * ENDED_MIN


class Part:
    """An object that refers to itself, so that only a collection can free it."""

    def __init__(self) -> None:
        self.itself = self


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def old_objects(clock: Clock) -> Iterator[OldObjects]:
    """Yields the old objects of a process that collects only when the test asks for it, and has SOME topics."""
    found = OldObjects(clock)
    for _ in range(SOME):
        found.began()
    is_enabled = gc.isenabled()
    gc.disable()
    gc.callbacks.append(found.collector_runs)
    try:
        yield found
    finally:
        gc.callbacks.remove(found.collector_runs)
        gc.unfreeze()
        if is_enabled:
            gc.enable()


def old_part() -> "weakref.ref[Part]":
    """Returns a part that nothing refers to any more, but that a full collection has seen in use."""
    part = Part()
    gc.collect()
    return weakref.ref(part)


def test_an_old_object_dies_when_nothing_refers_to_it(old_objects: OldObjects) -> None:
    part = Part()
    del part.itself
    gc.collect()
    dead = weakref.ref(part)
    del part
    assert dead() is None


def test_full_collections_look_only_at_what_is_new_while_few_topics_end(old_objects: OldObjects) -> None:
    old, new = old_part(), weakref.ref(Part())
    old_objects.ended(ENDED_MIN - 1)
    gc.collect()
    assert old() is not None
    assert new() is None


def test_a_full_collection_looks_at_everything_once_as_many_topics_have_ended_as_there_are(
    old_objects: OldObjects,
) -> None:
    old = old_part()
    old_objects.ended(SOME // 2 - 1)
    gc.collect()
    assert old() is not None
    old_objects.ended()
    gc.collect()
    assert old() is None
    assert not old_objects.are_due


def test_a_young_collection_neither_spares_nor_looks_at_old_objects(old_objects: OldObjects) -> None:
    old_objects.ended(SOME)
    frozen = gc.get_freeze_count()
    gc.collect(FULL - 1)
    assert gc.get_freeze_count() == frozen
    assert old_objects.are_due


def test_a_full_collection_looks_at_everything_after_some_hours_and_later_with_many_topics(
    old_objects: OldObjects, clock: Clock
) -> None:
    old = old_part()
    clock.now_s = LOOK_SECONDS + SOME * LOOK_SECONDS_FOR_EACH - 1
    gc.collect()
    assert old() is not None
    clock.now_s += 1
    gc.collect()
    assert old() is None
    assert not old_objects.are_due
