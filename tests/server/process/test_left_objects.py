"""What was closed is freed although its parts refer to each other, and without a collection of all objects."""

import asyncio
import gc
import weakref

import pytest

from magnetar.server.process import left_objects
from magnetar.server.process.garbage_collection import OldObjects
from magnetar.server.process.left_objects import LeftObjects, leave
from tests.waiting import until


class Closed:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_objects, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(left_objects, "STEP_SECONDS", 0.0)
    monkeypatch.setattr(left_objects, "COLLECTED_TOGETHER", 20)


def leave_one() -> "weakref.ref[Closed]":
    """Leaves an object that has become old."""
    closed = Closed()
    gc.collect()
    leave(closed)
    return weakref.ref(closed)


async def test_what_was_left_is_freed() -> None:
    loop = asyncio.get_running_loop()
    with OldObjects(loop, lambda: 0), LeftObjects(loop):
        left = [leave_one() for _ in range(30)]
        gc.collect()
        assert all(each() is not None for each in left)
        await until(lambda: sum(each() is None for each in left) >= 10)
    gc.unfreeze()


async def test_nobody_waits_while_no_server_runs() -> None:
    closed = Closed()
    dead = weakref.ref(closed)
    leave(closed)
    del closed
    gc.collect()
    assert dead() is None


async def test_a_limited_number_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_objects, "WAITING_MAX", 2)
    monkeypatch.setattr(left_objects, "WAIT_SECONDS", 60.0)
    with LeftObjects(asyncio.get_running_loop()):
        made = [Closed() for _ in range(3)]
        for each in made:
            leave(each)
        assert [weakref.getweakrefcount(each) for each in made] == [1, 1, 0]
    assert [weakref.getweakrefcount(each) for each in made] == [0, 0, 0], "a server that ends remembers nothing"


async def test_what_is_still_new_dies_without_waiting() -> None:
    with LeftObjects(asyncio.get_running_loop()):
        closed = Closed()
        dead = weakref.ref(closed)
        leave(closed)
        del closed
        gc.collect(0)
        assert dead() is None
