"""Logs the failures of tasks for which possibly nobody waits."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)


def log_failure(what: str, task: "asyncio.Task[Any]") -> None:
    """Logs that a task failed, because possibly no caller waits for the task any more. With `what` bound, the function
    is a done callback."""
    if not task.cancelled() and task.exception() is not None:
        log.warning("%s failed: %s", what, task.exception())
