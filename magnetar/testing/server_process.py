"""A standalone server as a child process of the tests.

The kernel chooses the ports, and the server keeps them over restarts, because this process holds sockets that are bound
to them and never listen. The server's standard input is a pipe from this process: when this process ends for any
reason, the pipe ends, and with it the server.
"""

import asyncio
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from magnetar.server.process.own_command import own_command
from magnetar.testing.admin_calls import AdminCalls
from magnetar.testing.data_folder import DataFolder
from magnetar.testing.faults import Faults

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
LOG_TAIL_LINES = 40
SETTING_WARNING = " WARNING magnetar.server.config."
"""Stands in a line of the log that warns of a key without effect."""

SETTINGS = {
    "faultInjectionEnabled": "true",
    "forceDeleteNamespaceAllowed": "true",
    "diskUsageThreshold": "0.9995",
    "journalMaxSizeMB": "64",
    "journalMaxBackups": "0",
}
"""The keys in which a test server differs from the defaults: tests may inject faults; namespaces can be deleted with
their topics; a disk that is nearly full of other files stops no test; journals stay small, because they may lie in
memory."""


class ServerError(Exception):
    """The server did not start or stop. The text holds the end of its log."""


class Server:
    """One server with its data. Use it as a context manager, sync or async, or call `start` and `close`.

    `settings` are keys of broker.conf. The data is deleted by `close`, unless `data_dir` names a folder for it. All
    methods block; on an event loop, call them by `asyncio.to_thread`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data_dir: Path | str | None = None,
        log_level: str = "INFO",
        admin_token: str = "",
        start_timeout_seconds: float = START_SECONDS_MAX,
    ) -> None:
        """`admin_token` is a superuser's token, for settings that turn authentication on."""
        self._settings = {**SETTINGS, **(settings or {})}
        self._given_data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._log_level = log_level
        self._admin_token = admin_token
        self._start_timeout_seconds = start_timeout_seconds
        self._may_have_faults = False
        self._folder: DataFolder | None = None
        self._reserved: list[socket.socket] = []
        self._ports = (0, 0)
        self._process: subprocess.Popen[bytes] | None = None

    # --- addresses ---------------------------------------------------------------------------------------------------

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's clients."""
        return f"pulsar://{HOST}:{self._started_ports[0]}"

    @property
    def admin_url(self) -> str:
        """The URL of the REST interface."""
        return f"http://{HOST}:{self._started_ports[1]}"

    def get_connection_url(self) -> str:
        """Returns `service_url`, by the name that containers of testcontainers have for it."""
        return self.service_url

    @property
    def admin(self) -> AdminCalls:
        """The REST interface as a function: `server.admin.call("GET", "/admin/v2/clusters")`."""
        return AdminCalls(self.admin_url, self._admin_token)

    @property
    def faults(self) -> Faults:
        """The faults that the test sets, such as `server.faults.lose("receipt")`."""
        self._may_have_faults = True
        return Faults(self.admin)

    def end_faults(self) -> None:
        """Takes all faults away, if the server runs and any may have been set. Raises AdminError."""
        if self._may_have_faults and self.is_running:
            self.faults.clear()
        self._may_have_faults = False

    def namespace(self, tenant: str = "public") -> AbstractContextManager[str]:
        """Returns a context manager that yields "tenant/namespace": a namespace of its own, which is deleted
        afterwards."""
        return self.admin.namespace(tenant)

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the server's process, also of one that has ended."""
        if self._process is None:
            raise ServerError("the server was never started")
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        return self._given_data_dir or self._own_folder / "data"

    @property
    def log_path(self) -> Path:
        """The file with the log of all starts of this server. It is deleted by `close`."""
        return self._own_folder / "server.log"

    def start(self) -> None:
        """Starts the server, and returns when clients can produce and consume. A server that was stopped or killed
        comes back with its data on the same ports. Raises ServerError."""
        if self.is_running:
            raise ServerError("the server runs already")
        if self._ports == (0, 0) and sys.platform == "linux":
            self._reserve_ports()
        self._forget_process()
        deadline = time.monotonic() + self._start_timeout_seconds
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )
        assert self._process.stdout is not None
        line = _read_line(self._process.stdout, deadline)
        if not line.endswith(b"\n"):
            self.kill()
            raise ServerError(f"the server did not start (exit code {self._process.returncode})\n{self.log_tail()}")
        ready = json.loads(line)
        self._ports = (_port_of(ready["brokerServiceUrl"]), _port_of(ready["webServiceUrl"]))

    def stop(self) -> None:
        """Stops the server in an orderly way; `start` brings it back. Raises ServerError when it does not end. Has no
        effect on a server that does not run."""
        if self._process is None or not self.is_running:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(f"the server did not stop in {STOP_SECONDS_MAX} s\n{self.log_tail()}") from None

    def kill(self) -> None:
        """Ends the process as `kill -9` does: nothing that was acknowledged is lost. `start` brings the server back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Stops the server and starts it again on the same ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends the server and deletes its data and its log. Raises ServerError when the server had to be killed."""
        try:
            self.stop()
        finally:
            self.kill()
            self._forget_process()
            for sock in self._reserved:
                sock.close()
            self._reserved.clear()
            self._ports = (0, 0)
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # --- the log -----------------------------------------------------------------------------------------------------

    def log_size(self) -> int:
        """Returns the length of the log in bytes, to be given to `log_text` later. 0 when there is no log."""
        return self.log_path.stat().st_size if self._folder is not None and self.log_path.exists() else 0

    def log_text(self, offset: int = 0) -> str:
        """Returns the log from a byte offset on."""
        return self.log_path.read_bytes()[offset:].decode("utf-8", "replace") if self.log_size() else ""

    def log_tail(self) -> str:
        """Returns the last lines of the log."""
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])

    def setting_warnings(self) -> list[str]:
        """Returns what the server logged about settings without effect, for instance keys that are misspelt."""
        warnings = (line.partition(SETTING_WARNING)[2] for line in self.log_text().splitlines())
        return [warning.partition(" ")[2] for warning in warnings if warning]

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _started_ports(self) -> tuple[int, int]:
        if self._process is None or 0 in self._ports:
            raise ServerError("the server was not started: use `with Server() as server`, or call `start()`")
        return self._ports

    @property
    def _own_folder(self) -> Path:
        if self._folder is None:
            self._folder = DataFolder()
        return self._folder.path

    def _reserve_ports(self) -> None:
        """Binds two ports that the kernel chooses. On Linux, a server may listen on a port to which another socket is
        bound, if both sockets have SO_REUSEADDR; nobody else is given such a port."""
        for _ in range(2):
            sock = socket.socket()
            self._reserved.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, 0))
        broker, web = (sock.getsockname()[1] for sock in self._reserved)
        self._ports = (broker, web)

    def _command(self) -> list[str]:
        broker_port, web_port = map(str, self._ports)
        command = [*own_command(), "standalone", "--ready-json", "--end-with-input"]
        command += ["--host", HOST, "--broker-port", broker_port, "--web-port", web_port]
        command += ["--data-dir", os.fspath(self.data_dir), "--log-level", self._log_level]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def _forget_process(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        self._process = None


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def _read_line(stream: IO[bytes], deadline: float) -> bytes:
    """Returns the first line of an unbuffered pipe, or what came before its end or the deadline."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return line
            more = os.read(stream.fileno(), 4_096)
            if not more:
                return line
            line += more
    return line
