"""The thread on which a store's file is read and written."""

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FileThread:
    """The thread that does all work on the file, in order, and delivers the results on the loop.

    A piece of work consists of several calls to SQLite and to the file system that belong together. Therefore each
    piece is one function on this thread, and not a chain of calls of aiofiles.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]] | None]
        self._work = queue.SimpleQueue()
        # The thread is a daemon, so that a process that ends without close() does not hang. The file survives such an
        # end as well as a SIGKILL.
        threading.Thread(target=self._serve, name="metadata-file", daemon=True).start()

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Runs `work` on the thread; then `done` is called on the loop with the result and the error."""
        self._work.put((work, done))

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls `work` on the thread; returns its result or raises its error."""
        future: asyncio.Future[T] = self._loop.create_future()

        def done(result: Any, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.run(partial(work, *args, **kwargs), done)
        return await future

    def stop(self) -> None:
        """Ends the thread after all submitted work is done."""
        self._work.put(None)

    def _serve(self) -> None:
        while (task := self._work.get()) is not None:
            work, done = task
            result: Any = None
            fault: Exception | None = None
            try:
                result = work()
            except Exception as error:
                fault = error
            try:
                self._loop.call_soon_threadsafe(done, result, fault)
            except RuntimeError:
                return  # the loop is closed, and nobody waits for a result any more
            del task, work, done, result, fault  # an idle thread keeps no object of the last work alive
