"""Calls of exporters, which may hang, on threads that do not keep the process from ending."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread


async def on_daemon_thread(call: Callable[[], None]) -> None:
    """Runs the call on a thread of its own and returns when the call does. Raises the errors of the call. When the
    caller is cancelled, the call goes on, at the longest until the process ends: `asyncio.to_thread` would make the end
    of the process wait for the call."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            call()
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # The loop is closed, and nobody waits.
            loop.call_soon_threadsafe(tell, error)

    Thread(target=run, name="telemetry", daemon=True).start()
    await ended
