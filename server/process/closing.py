"""Closes the parts of a process in order, within a deadline."""

import asyncio
import logging
from contextlib import AsyncExitStack

log = logging.getLogger(__name__)

CUT_SECONDS = 0.2
"""The time that each part gets to be closed after the deadline has passed."""


async def close_within(parts: AsyncExitStack, seconds: float, setting: str = "") -> bool:
    """Closes all parts, the last opened first; 0 seconds stand for no deadline. Returns False and warns when the
    deadline passed: after the deadline the part that is being closed is cancelled, and so is each further part that
    needs longer than CUT_SECONDS. Threads of a part that was cut off may still be at work. The warning names `setting`,
    the key of the configuration that sets the deadline, if there is one. Raises the errors of the parts."""
    work = asyncio.get_running_loop().create_task(parts.aclose())
    try:
        await asyncio.wait((work,), timeout=seconds or None)
        in_time = work.done()
        if not in_time:
            limit = f"{seconds:g} s ({setting})" if setting else f"{seconds:g} s"
            log.warning("cut off a stop of more than %s; nothing acknowledged is lost", limit)
        while not work.done():
            # A cancellation reaches only the part that is being closed now. The stack then goes on with the next part.
            work.cancel()
            await asyncio.wait((work,), timeout=CUT_SECONDS)
    finally:
        work.cancel()
    if not work.cancelled():
        work.result()
    return in_time
