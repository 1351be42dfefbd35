"""One process of a cluster: it is started, paused, killed and started again, and its log is searched for errors."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from compat_tests.harness import LOG_TAIL_LINES, LOOP_HELD, LOOP_WATCH, ServerFailedError, stall_lines

START_SECONDS = 120.0
STOP_SECONDS = 90.0
POLL_SECONDS = 0.02
HOST = "127.0.0.1"

ERROR_MARKS = (" ERROR ", " CRITICAL ", "Traceback (most recent call last)")


class ClusterProcess(ABC):
    """A process in one seat of a cluster. `start` may be called again after `stop` or `kill`: a process keeps its
    folder and the ports of its first start."""

    logs_errors = True
    """Whether an ERROR line in the log is a fault. Apache's processes log such lines at a healthy start."""

    def __init__(self, name: str, folder: Path, *, program: Sequence[str] = ()) -> None:
        """`program` precedes the command line, for example to run the process in another network namespace."""
        self.name = name
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_path = self.folder / "log"
        self.environment: dict[str, str] = {}
        """Environment variables for the next start."""
        self.program = list(program)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Returns the command line of the next start."""

    @abstractmethod
    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        """Blocks until the process serves, and notes its addresses. Returns False when it ended, or at the deadline
        (monotonic seconds)."""

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def spawn(self) -> None:
        """Starts the process without waiting for it."""
        assert not self.is_running, f"{self.name} runs already"
        self._forget_pipe()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.program, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.logs_errors else log,
                stderr=log,
                bufsize=0,
                env={**os.environ, **LOOP_WATCH, **self.environment},
            )

    def await_ready(self, seconds: float = START_SECONDS) -> Self:
        """Waits until the process serves. Raises ServerFailedError."""
        if not self.wait_ready(self.process, time.monotonic() + seconds):
            self.kill()
            raise ServerFailedError(f"{self.name} did not start, exit code {self.process.wait()}\n{self.log_tail()}")
        return self

    def start(self) -> Self:
        """Starts the process and returns when it serves. Raises ServerFailedError."""
        self.spawn()
        return self.await_ready()

    def terminate(self) -> None:
        """Sends SIGTERM and does not wait."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Waits for the end of the process and returns its exit code. Raises ServerFailedError."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ServerFailedError(f"{self.name} still runs after {seconds} s\n{self.log_tail()}") from None

    def stop(self) -> float:
        """Sends SIGTERM, waits for the end, and returns the seconds that this took. Raises ServerFailedError for a bad
        exit code."""
        began = time.monotonic()
        self.terminate()
        code = self.wait()
        if code not in (0, 128 + signal.SIGTERM):
            raise ServerFailedError(f"{self.name}: exit code {code} after SIGTERM\n{self.log_tail()}")
        return time.monotonic() - began

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process is gone. Has no effect when it has ended already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stops the process cleanly and starts it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the process if it runs; afterwards it is gone, whatever happened before."""
        try:
            if self.is_running:
                self.resume()
                self.stop()
        finally:
            self.kill()
            self._forget_pipe()

    def _forget_pipe(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def log_text(self, offset: int = 0) -> str:
        """Returns the log from a byte offset on, which may be the `log_size()` of an earlier moment."""
        return self.log_path.read_bytes()[offset:].decode("utf-8", "replace") if self.log_path.exists() else ""

    def log_size(self) -> int:
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])

    def error_lines(self) -> list[str]:
        """Returns the log's ERROR lines and the lines that say what held the event loop."""
        if not self.logs_errors:
            return []
        text = self.log_text()
        broken = [line for line in text.splitlines() if LOOP_HELD not in line and any(m in line for m in ERROR_MARKS)]
        return [f"{self.name}: {line}" for line in (*broken, *stall_lines(text))]


def key_options(settings: Mapping[str, str]) -> list[str]:
    """Returns configuration keys as options of our commands."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def write_keys(path: Path, settings: Mapping[str, str]) -> Path:
    """Writes a property file, for Apache's processes, and returns its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
