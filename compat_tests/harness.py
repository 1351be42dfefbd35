"""Starts, stops and kills real servers as child processes (see `products` for the kinds of servers).

A `Server` owns one data folder and at most one child process. It keeps the ports of its first start for every later
one, so that clients find a restarted server where it was. Nothing here knows the server's code: it sees a command line,
one ready line, files of output and signals. `MAGNETAR_PEER_LIB` (a folder with Apache Pulsar's jars) makes every server
an Apache standalone instead, by which the tests themselves are checked; `MAGNETAR_CLUSTER=1` makes every server a
cluster of three brokers and three bookies, on which the same tests have to pass.
"""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.apache import ApachePulsar
from compat_tests.products import CLUSTER_VARIABLE, Address, Magnetar, MagnetarCluster, Product

PEER_LIB_VARIABLE = "MAGNETAR_PEER_LIB"
START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0
WAIT_SECONDS = 60.0
"""How long a test waits for something that must come. Usually it comes much sooner, but a busy machine may stall for
seconds."""
LOG_TAIL_LINES = 40
POLL_SECONDS = 0.01
LOOP_CPU_LIMIT_MS = 40
CPU_LIMIT_VARIABLE = "MAGNETAR_LOOP_CPU_LIMIT_MS"
LOOP_WATCH = {CPU_LIMIT_VARIABLE: str(LOOP_CPU_LIMIT_MS)}
"""Environment variables for our processes: a callback that holds the event loop for longer than this is logged as an
ERROR line. Only CPU time counts, but a busy machine's cold caches double it: callbacks of at most 15 ms on a quiet
machine were seen to take 30 ms of CPU."""
UNWATCHED = dict.fromkeys(LOOP_WATCH, "")
"""Environment variables for a server that is measured: it runs without that watch, as it does for its users. The watch
takes samples of each process two hundred times a second, which is most of an idle cluster's CPU time."""
LOOP_HELD = "held the event loop"
KNOWN_STALLS: tuple[str, ...] = ()
"""The places that are allowed to hold the loop for longer, as the log lines name them."""


class ServerFailedError(AssertionError):
    """A server did not start, did not stop, or logged an error. The text holds the end of its log."""


def default_product() -> Product:
    """Returns Magnetar, or Apache Pulsar when the environment names its jars, or a cluster when it asks for one."""
    if lib := os.environ.get(PEER_LIB_VARIABLE):
        return ApachePulsar(Path(lib))
    return MagnetarCluster() if os.environ.get(CLUSTER_VARIABLE) else Magnetar()


class Server:
    """One server on one data folder. Use it as a context manager, sync or async; leaving it stops the server.

    `settings` are configuration keys in Pulsar's names. `folder` gets `data/` and `server.log`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        product: Product | None = None,
        settings: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.product = product or default_product()
        self.data_dir = data_dir or folder / "data"
        self.log_path = folder / "server.log"
        self._settings = dict(settings or {})
        self._environment = {**os.environ, **LOOP_WATCH, **(environment or {})}
        self._ports = (0, 0)
        self._address: Address | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> Address:
        assert self._address is not None, "the server was never started"
        return self._address

    @property
    def broker_url(self) -> str:
        return self.address.broker_url

    @property
    def web_url(self) -> str:
        return self.address.web_url

    @property
    def broker_port(self) -> int:
        return self.address.broker_port

    @property
    def pid(self) -> int:
        return self.address.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> float:
        """Starts the server, waits until it is ready, and returns the seconds that this took. Raises
        ServerFailedError."""
        began = self.spawn()
        assert self._process is not None
        address = self.product.wait_ready(self._process, self._ports, began + timeout_seconds)
        if address is None:
            self._process.kill()
            code = self._process.wait()
            raise ServerFailedError(f"{self.product.name} did not start, exit code {code}\n{self.log_tail()}")
        self._address = address
        self._ports = (address.broker_port, address.web_port)
        return time.monotonic() - began

    def spawn(self, ports: tuple[int, int] | None = None) -> float:
        """Starts the process without waiting for it; returns the monotonic time of the command."""
        assert not self.is_running, "already running"
        self._forget_process()
        if ports is not None:
            self._ports = ports
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.product.is_peer and 0 in self._ports:
            self._ports = (free_port(), free_port())
        command = self.product.command(self.data_dir, self._ports, self._settings)
        began = time.monotonic()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log if self.product.is_peer else subprocess.PIPE,
                stderr=log,
                bufsize=0,
                env=self._environment,
            )
        host = "127.0.0.1"
        broker, web = self._ports
        self._address = Address(f"pulsar://{host}:{broker}", f"http://{host}:{web}", self._process.pid)
        return began

    def terminate(self) -> None:
        """Sends SIGTERM and does not wait."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Waits for the end of the process and returns its exit code. Raises ServerFailedError."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ServerFailedError(f"still running after {timeout_seconds} s\n{self.log_tail()}") from None

    def stop(self) -> float:
        """Sends SIGTERM, waits for the end, and returns the seconds that this took. Raises ServerFailedError for a bad
        exit code."""
        began = time.monotonic()
        self.terminate()
        code = self.wait()
        took = time.monotonic() - began
        if code not in (0, 128 + signal.SIGTERM):
            raise ServerFailedError(f"exit code {code} after SIGTERM\n{self.log_tail()}")
        return took

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Stops the server cleanly and starts it again on the same ports."""
        self.stop()
        self.start()

    async def start_async(self) -> float:
        return await asyncio.to_thread(self.start)

    async def stop_async(self) -> float:
        return await asyncio.to_thread(self.stop)

    def log_text(self, offset: int = 0) -> str:
        """Returns the log from a byte offset on, which may be the `log_size()` of an earlier moment."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[offset:].decode("utf-8", "replace")

    def log_size(self) -> int:
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])

    def error_lines(self, offset: int = 0) -> list[str]:
        """Returns the log's ERROR lines, each of which is a broken invariant. For the peer there are none, because it
        logs ERROR lines at every healthy start."""
        if self.product.is_peer:
            return []
        marks = (" ERROR ", " CRITICAL ", "Traceback (most recent call last)")
        text = self.log_text(offset)
        broken = [line for line in text.splitlines() if any(mark in line for mark in marks) and LOOP_HELD not in line]
        return broken + stall_lines(text)

    def assert_no_errors(self, offset: int = 0, allowed: Sequence[str] = ()) -> None:
        """Raises ServerFailedError when the log holds an error line that has none of the `allowed` texts in it."""
        bad = [line for line in self.error_lines(offset) if not any(text in line for text in allowed)]
        if bad:
            raise ServerFailedError("\n".join([f"{len(bad)} error lines in the log:", *bad[:10], "…", self.log_tail()]))

    def _forget_process(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def close(self) -> None:
        """Stops the process if it runs. Afterwards it is gone, whatever happened before."""
        try:
            if self.is_running:
                self.stop()
        finally:
            if self.is_running:
                self.kill()
            self._forget_process()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.start_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


def stall_lines(text: str) -> list[str]:
    """Returns the log lines that say what held the event loop for too long, without those of KNOWN_STALLS."""
    found = [line for line in text.splitlines() if LOOP_HELD in line]
    return [line for line in found if not any(place in line for place in KNOWN_STALLS)]


def free_port() -> int:
    """Returns a port that was free a moment ago, for programs that cannot choose one themselves."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], what: str, timeout_seconds: float = WAIT_SECONDS) -> None:
    """Polls the condition until it holds. Raises TimeoutError, which says what did not happen."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_seconds} s: {what}")
        time.sleep(POLL_SECONDS)
