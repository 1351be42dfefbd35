"""Starts one child process of the supervisor, waits until it is ready, starts it again when it dies or hangs, and stops
it.

`child_rules.ChildLife` makes the decisions; this module has the process, its pipes and the clock.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from magnetar.server.process.log_lines import TEXT
from magnetar.server.process.supervision import SESSION_FILE_VARIABLE, SUPERVISOR_VARIABLE
from magnetar.server.programs.cluster.child_log import ChildLog
from magnetar.server.programs.cluster.child_rules import (
    LOOK_SECONDS,
    START_SECONDS_MAX,
    ChildLife,
    ChildState,
    SignsOfLife,
)

log = logging.getLogger(__name__)

READY_LINE_BYTES_MAX = 1 << 16
LAST_OUTPUT_SECONDS = 1.0
"""How long to wait for the end of a dead child's output."""


class ChildDiedError(Exception):
    """A child has ended before it was ready for the first time. The text gives the reason."""


class Child:
    """One child. `start` is called once, then `ask_to_stop` and `stopped`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        died: Callable[["Child"], Awaitable[None]],
        changed: Callable[[], None],
        log_format: str = TEXT,
    ) -> None:
        """`died` is awaited after each death, before the child is started again, and removes the remains of the dead
        process, such as its ZooKeeper session. `changed` is called when the child becomes ready, and when it is no
        longer ready."""
        self.name = name
        self.session_file = folder / "session"
        self.ready: dict[str, Any] = {}
        """The fields of the child's ready line. The dict is empty while the child is not ready."""
        self._command = list(command)
        self._folder = folder
        self._died = died
        self._changed = changed
        self._life = ChildLife()
        self._signs = SignsOfLife()
        self._next_look: asyncio.TimerHandle | None = None
        self._log = ChildLog(name, log_format)
        self._process: Process | None = None
        self._first_start_over = asyncio.Event()
        self._start_fault: Exception | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> ChildState:
        return self._life.state

    @property
    def is_gone(self) -> bool:
        """Whether no process of this child runs."""
        return self._process is None or self._process.returncode is not None

    async def start(self) -> None:
        """Starts the child and returns when it is ready. From then on the child is started again whenever it dies.
        Raises ChildDiedError when the child ends before it is ready, and OSError when it cannot be started at all."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._first_start_over.wait()
        if self._start_fault is not None:
            raise self._start_fault

    def ask_to_stop(self) -> None:
        """Sends SIGTERM to the child if it runs, and keeps it from being started again."""
        self._stopping.set()
        self._life.stop()
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to the child if it runs."""
        self._send(signal.SIGKILL)

    async def stopped(self) -> None:
        """Returns when the process is gone and is not started again. Must be called after `ask_to_stop`."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._live()
                if not await self._clear():
                    return
        except Exception as error:
            if self._first_start_over.is_set():
                log.exception("%s is no longer supervised", self.name)
            self._start_failed(error)
        if not self._first_start_over.is_set():
            self._start_failed(ChildDiedError(f"{self.name} was stopped before it was ready"))

    def _start_failed(self, fault: Exception) -> None:
        self._start_fault = fault
        self._first_start_over.set()

    async def _live(self) -> None:
        """Runs one process from its start to its end."""
        loop = asyncio.get_running_loop()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log.forget()
        self._life.start()
        self._signs = SignsOfLife()
        environment = {
            **os.environ,
            SUPERVISOR_VARIABLE: str(os.getpid()),
            SESSION_FILE_VARIABLE: str(self.session_file),
            "PYTHONUNBUFFERED": "1",
        }
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,  # Nothing is written to this pipe. Its end tells the child that the supervisor is gone.
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in a terminal goes to the supervisor alone, which stops all in order
            limit=READY_LINE_BYTES_MAX,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        if self._stopping.is_set():
            self._send(signal.SIGTERM)
        errors = loop.create_task(self._log.pump(process.stderr))
        output = loop.create_task(self._read_output(process.stdout))
        hangs = loop.call_later(START_SECONDS_MAX, self._kill_if_not_ready)
        self._look_for_life()
        try:
            code = await process.wait()
        finally:
            hangs.cancel()
            if self._next_look is not None:
                self._next_look.cancel()
            _, late = await asyncio.wait((errors, output), timeout=LAST_OUTPUT_SECONDS)
            for task in late:
                task.cancel()
        was_ready, self.ready = bool(self.ready), {}
        self._life.end(loop.time())
        if was_ready:
            self._changed()
        if not self._first_start_over.is_set():
            reason = self._log.last_words or f"it ended with {how_it_ended(code)}"
            self._start_failed(ChildDiedError(f"{self.name}: {reason}"))
        elif not self._stopping.is_set():
            log.warning("%s (pid %d) ended with %s", self.name, process.pid, how_it_ended(code))

    async def _read_output(self, stream: asyncio.StreamReader) -> None:
        """Reads the ready line, and passes all further lines to the log."""
        try:
            line = await stream.readline()
            self.ready = {**json.loads(line), "pid": self._process.pid if self._process else None}
        except ValueError:
            if line.strip():
                self._log.write([line.rstrip()])
        else:
            self._become_ready()
        await self._log.pump(stream, self._signs.beat)

    def _become_ready(self) -> None:
        if self._life.state is not ChildState.STARTING:
            return
        self._life.ready(asyncio.get_running_loop().time())
        if self._first_start_over.is_set():
            log.info("%s is ready again (pid %s)", self.name, self.ready["pid"])
        self._first_start_over.set()
        self._changed()

    def _kill_if_not_ready(self) -> None:
        if self._life.state is ChildState.STARTING:
            log.warning("%s was not ready after %.0f s: it is killed", self.name, START_SECONDS_MAX)
            self.kill()

    def _look_for_life(self) -> None:
        """Kills the process when it hangs; otherwise looks again later."""
        loop = asyncio.get_running_loop()
        if self._signs.hangs(loop.time()):
            log.warning("%s gave no sign of life for %.0f s: it is killed", self.name, self._signs.silent_seconds)
            self.kill()
        else:
            self._next_look = loop.call_later(LOOK_SECONDS, self._look_for_life)

    async def _clear(self) -> bool:
        """Calls `died` to remove the remains of the dead process, and waits for the pause. Returns whether to start the
        child again."""
        if self._life.state is not ChildState.DEAD or self._start_fault is not None:
            return False
        await self._died(self)
        if self._life.state is not ChildState.DEAD:
            return False
        self._life.clear()
        if self._life.pause_seconds:
            log.warning("%s is started again in %.1f s", self.name, self._life.pause_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._life.pause_seconds):
                    await self._stopping.wait()
        return not self._stopping.is_set()


def how_it_ended(code: int) -> str:
    """Returns a text that describes a process's exit code to a user."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
