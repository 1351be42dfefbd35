"""Done callbacks for tasks and futures for which possibly nobody waits, when they fail."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)


def log_failure(what: str, task: "asyncio.Task[Any]") -> None:
    """Logs that a task failed, because possibly no caller waits for the task any more. With `what` bound, the function
    is a done callback."""
    if not task.cancelled() and task.exception() is not None:
        log.warning("%s failed: %s", what, task.exception())


def mark_seen(future: "asyncio.Future[Any]") -> None:
    """Marks the error of a future as seen, so that asyncio does not complain when nobody waits for it any more."""
    if not future.cancelled():
        future.exception()
