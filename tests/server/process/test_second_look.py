"""Old objects that are garbage are freed without a look at all objects."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from magnetar.server.process.second_look import NEIGHBOURS_MAX, OBJECTS_MAX, look_again


class Part:
    """A part of something. All parts of it can be reached from each."""

    def __init__(self, *parts: "Part") -> None:
        self.parts = list(parts)
        self.itself = lambda: self


@pytest.fixture(autouse=True)
def _collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def old(part: Part) -> "weakref.ref[Part]":
    """Exempts the part from collections, as a server does."""
    gc.collect()
    gc.freeze()
    return weakref.ref(part)


def test_old_garbage_is_freed_with_all_that_belongs_to_it() -> None:
    inner = Part()
    whole = Part(Part(inner))
    inner.parts.append(whole)
    dead, dead_inner = old(whole), weakref.ref(inner)
    del inner
    look_again(whole)
    del whole
    assert dead() is not None
    gc.collect(0)
    assert dead() is None
    assert dead_inner() is None


def test_without_a_second_look_it_stays() -> None:
    whole = Part()
    dead = old(whole)
    del whole
    gc.collect()
    assert dead() is not None
    gc.unfreeze()


def test_what_is_in_use_stays_as_it_is() -> None:
    inner = Part()
    whole = Part(inner)
    alive = old(whole)
    look_again(whole)
    del whole
    del inner.itself
    user = {"of": alive()}
    gc.collect(0)
    assert user["of"] is alive()
    assert user["of"] is not None
    assert user["of"].parts == [inner]


def test_the_walk_ends_at_what_many_others_refer_to() -> None:
    shared = Part()
    others = [Part(shared) for _ in range(NEIGHBOURS_MAX + 1)]
    few = look_again(Part())
    assert look_again(others[0]) == few
    assert look_again(shared) == few


def test_the_walk_does_not_go_through_a_table_of_many() -> None:
    few = look_again(Part())
    whole = Part(*[Part() for _ in range(NEIGHBOURS_MAX + 1)])
    assert look_again(whole) == few


def test_one_call_looks_at_a_limited_number_of_objects() -> None:
    whole = Part()
    for _ in range(OBJECTS_MAX):
        whole = Part(whole)
    assert OBJECTS_MAX <= look_again(whole) <= OBJECTS_MAX + NEIGHBOURS_MAX
    while whole.parts:  # so that the chain is not freed by a call in a call in a call
        whole = whole.parts[0]
