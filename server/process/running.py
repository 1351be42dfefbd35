"""Runs a server from a command: on uvloop if it is installed, until SIGTERM or SIGINT. A fault that ends the server is
printed as one sentence."""

import asyncio
import signal
import sys
from typing import Protocol

from magnetar.server.process.descriptors import raise_limit
from magnetar.server.process.garbage_collection import OldObjects, collect_no_more
from magnetar.server.process.left_objects import LeftObjects
from magnetar.server.process.log_lines import TEXT, log_to_stderr
from magnetar.server.process.loop_watch import make_loop_watch
from magnetar.server.process.private_files import make_files_private
from magnetar.server.process.service_manager import READY, STOPPING, notify_service_manager
from magnetar.server.process.supervision import beat_for_supervisor, end_with_supervisor

STOP_DEADLINE_SECONDS = 1.5
"""The time after which a program that stores data gives up an orderly stop. In that case the next start replays the
journal, and nothing is lost."""
THREAD_SWITCH_SECONDS = 0.001
"""How long a thread waits for the interpreter before the thread that has it is made to give it up
(`sys.setswitchinterval`). The journal's thread takes the interpreter three times for each batch: when it wakes up,
after the write and after the fsync. While the event loop is busy with other work, each of these waits is added to the
latency of publishing. Python's default is 5 ms. With 0.1 ms publishing to 1,000 topics took some 12 % more CPU, and the
latency beside a thousand admin calls was 3.3 instead of 3.6 ms (p99)."""


class StartError(Exception):
    """The server cannot start. The error's text is the sentence for the user."""


class App(Protocol):
    """The interface of a server. `run_app` calls `start()` once and then `stop()` once, also after a start that
    failed."""

    async def start(self) -> None:
        """Starts the server, and returns when clients are served. Raises StartError."""

    async def stop(self) -> None:
        """Stops the server, even if its start failed halfway."""

    def ready_line(self) -> str:
        """Returns the line that is printed for programs and people when the server is ready."""

    def uses(self) -> int:
        """Returns a number that grows when clients use the server: a pause that comes while it stands still for some
        seconds is noticed by nobody. Called after the start."""

    async def failed(self) -> str:
        """Waits until the server cannot go on, and returns the sentence that says why. For a server that does not fail
        by itself, this call never returns."""


def sentence(error: Exception) -> str:
    """Returns the sentence about a fault that a user reads. For an OSError the sentence has the file and the reason,
    without the error number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)


def run_app(app: App, *, log_level: str, log_format: str = TEXT) -> int:
    """Runs a server to its end and returns the exit code: 0 when it was asked to stop, 1 when it could not start or
    failed."""
    log_to_stderr(log_level, log_format)
    end_with_supervisor()
    make_files_private()
    raise_limit()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(serve(app))
    except StartError as error:
        print(f"magnetar: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """Returns uvloop's loop if it is installed, or None for asyncio's own loop. uvloop is faster, but nothing depends
    on it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


async def serve(app: App) -> int:
    """Runs the server until SIGTERM or SIGINT, which also break a start off, or until it fails. Returns the exit code.
    Raises StartError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    asked = asyncio.ensure_future(stop.wait())
    starting = asyncio.ensure_future(app.start())
    failure = asyncio.ensure_future(app.failed())
    has_started = False
    try:
        await asyncio.wait((asked, starting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return 0
        starting.result()
        has_started = True
        print(app.ready_line(), flush=True)
        notify_service_manager(READY)
        beat_for_supervisor(loop)
        with make_loop_watch(loop), OldObjects(loop, app.uses), LeftObjects(loop):
            await asyncio.wait((asked, failure), return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return 0
        print(f"magnetar: {failure.result()}", file=sys.stderr)
        return 1
    finally:
        for task in (asked, failure, starting):
            task.cancel()
        notify_service_manager(STOPPING)
        if has_started:  # there is something to end, and then nothing but the end of the process
            collect_no_more()
        await asyncio.wait((starting,))
        await app.stop()
