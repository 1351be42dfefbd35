"""Old objects are spared by collections until the memory of the server has grown."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from magnetar.server.process import full_collection_rules, garbage_collection
from magnetar.server.process.garbage_collection import OldObjects, resident_bytes
from tests.waiting import until

GIB = 1 << 30


class Part:
    """An object that refers to itself, so that only a collection can free it."""

    def __init__(self) -> None:
        self.itself = self


class Server:
    """A process whose memory the test sets, and whether anybody uses it."""

    memory_bytes = GIB
    is_used = False
    looks = 0

    def uses(self) -> int:
        self.looks += 1
        return self.looks if self.is_used else 0


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Yields a process that collects only when the test asks for it, or when its memory has grown."""
    monkeypatch.setattr(garbage_collection, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(full_collection_rules, "STILL_SECONDS", 0.01)
    found, is_enabled = Server(), gc.isenabled()
    gc.disable()
    try:
        with OldObjects(asyncio.get_running_loop(), found.uses, lambda: found.memory_bytes, lambda: 0.0):
            yield found
        assert not [each for each in gc.callbacks if isinstance(getattr(each, "__self__", None), OldObjects)]
    finally:
        if is_enabled:
            gc.enable()


def old_part(generation: int = 2) -> "weakref.ref[Part]":
    """Returns a part that nothing refers to any more, but that a collection has seen in use."""
    part = Part()
    gc.collect(generation)
    return weakref.ref(part)


def test_an_old_object_dies_when_nothing_refers_to_it(server: Server) -> None:
    part = Part()
    del part.itself
    gc.collect()
    dead = weakref.ref(part)
    del part
    assert dead() is None


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_collections_look_only_at_what_is_new(server: Server, generation: int) -> None:
    old, new = old_part(generation), weakref.ref(Part())
    gc.collect()
    assert old() is not None
    assert new() is None


async def test_old_garbage_is_freed_when_the_memory_has_grown(server: Server) -> None:
    old = old_part()
    gc.collect()
    assert old() is not None
    server.memory_bytes = 2 * GIB
    await until(lambda: old() is None)
    spared = old_part()
    gc.collect()
    assert spared() is not None, "old objects are spared again"


async def test_old_garbage_stays_while_the_server_is_in_use(server: Server) -> None:
    server.is_used = True
    old = old_part()
    server.memory_bytes, looks = 100 * GIB, server.looks + 50
    await until(lambda: server.looks >= looks)
    assert old() is not None
    server.is_used = False
    await until(lambda: old() is None)


def test_the_memory_of_this_process_is_known() -> None:
    assert 1 << 20 < resident_bytes() < 1 << 40
