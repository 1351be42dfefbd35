"""Creates ephemeral records (locks, votes) so that a cancelled task leaves none behind.

An ephemeral record goes with its ZooKeeper session, but the session may outlive the task that created the record.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import Created

log = logging.getLogger(__name__)

_undoing: set[asyncio.Task[None]] = set()
"""The tasks that undo creations. This set keeps the tasks alive, because nobody awaits them and asyncio keeps only weak
references to tasks."""


async def created_or_undone(create: Coroutine[Any, Any, Created], undo: Callable[[str], Awaitable[None]]) -> Created:
    """Awaits a creation and returns what it created.

    The caller may be cancelled when the request is on its way already. If the request creates the record nevertheless,
    this function calls `undo` with the record's path.
    """
    creating = asyncio.ensure_future(create)
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        creating.add_done_callback(partial(_came_late, undo))
        raise


def _came_late(undo: Callable[[str], Awaitable[None]], creating: "asyncio.Task[Created]") -> None:
    """Calls `undo` if the creation, which has ended after its caller was cancelled, has created a record
    nevertheless."""
    if creating.cancelled() or creating.exception() is not None:
        return
    task = asyncio.ensure_future(_undo(undo, creating.result().path))
    _undoing.add(task)
    task.add_done_callback(_undoing.discard)


async def _undo(undo: Callable[[str], Awaitable[None]], path: str) -> None:
    try:
        await undo(path)
    except MetadataError as error:
        log.warning("a record that nobody needs any more goes away with the session: %s", error)
