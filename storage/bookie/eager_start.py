"""Runs a coroutine up to its first wait without a task, and makes a task for the rest only if it does wait.

A read that is served from memory never waits, and a task would cost more than the read itself. Python 3.12 offers the
same with `asyncio.eager_task_factory`.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


def run_eagerly(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Runs `work` to its end and returns None, or to its first wait and returns the task that does the rest. An
    exception of `work` before its first wait is raised here.

    Until the first wait there is no current task, so `work` must not begin with a call that needs a current task
    (`asyncio.timeout`, `asyncio.wait_for`).
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    task = loop.create_task(_go_on(work, waits_for))
    # A task that is cancelled before its first step runs nothing of its coroutine. `work` has begun already, so it must
    # be closed.
    task.add_done_callback(lambda _: work.close())
    return task


async def _go_on(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _steps(work, waits_for)


@types.coroutine
def _steps(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    while True:
        try:
            yield waits_for
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            thrown: BaseException | None = error
        else:
            thrown = None
        try:
            waits_for = work.send(None) if thrown is None else work.throw(thrown)
        except StopIteration:
            return
