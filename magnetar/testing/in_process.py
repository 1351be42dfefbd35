"""A standalone server on the event loop of the tests: no child process, and a debugger that stops in both."""

import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.testing.admin_calls import AdminCalls
from magnetar.testing.data_folder import DataFolder
from magnetar.testing.faults import Faults
from magnetar.testing.server_process import HOST, SETTINGS

STOP_SECONDS = 60.0
"""The time for a stop. A stop that is cut off earlier on a busy machine leaves threads behind that write to the data
folder while it is deleted."""


class InProcessServer:
    """A server on the running event loop. Use it by `async with`.

    The server answers only while the loop turns, so blocking clients and the blocking calls of `admin` must run on
    other threads, for example by `asyncio.to_thread`. Its data lies in memory where the system has room for files
    there, and is deleted at the end.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are keys of broker.conf."""
        self._settings = {**SETTINGS, **(settings or {})}
        self._folder: DataFolder | None = None
        self._switch_seconds = sys.getswitchinterval()
        self.standalone: Standalone
        """The server itself, for tests that look inside."""

    @property
    def data_dir(self) -> Path:
        """The folder of the server's data."""
        assert self._folder is not None, "the server was not started"
        return self._folder.path / "data"

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's clients."""
        return self.standalone.broker_url

    @property
    def admin_url(self) -> str:
        """The URL of the REST interface."""
        return self.standalone.web_url

    def get_connection_url(self) -> str:
        """Returns `service_url`, by the name that containers of testcontainers have for it."""
        return self.service_url

    @property
    def admin(self) -> AdminCalls:
        """The REST interface as blocking calls, for other threads."""
        return AdminCalls(self.admin_url)

    @property
    def faults(self) -> Faults:
        """The faults that the test sets, by blocking calls. `move_clock` moves the time of day of this process."""
        return Faults(self.admin)

    async def start(self) -> None:
        """Returns when clients can produce and consume. Raises `magnetar.server.process.running.StartError`."""
        self._folder = DataFolder()
        options = StandaloneOptions(self.data_dir, host=HOST, broker_port=0, web_port=0, overrides=self._settings)
        self.standalone = Standalone(options)
        try:
            await self.standalone.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stops the server and deletes its data. Takes back what a server's start changes for the whole process: the
        time after which threads take turns, and the objects that are exempt from garbage collection."""
        try:
            await self.standalone.stop(STOP_SECONDS)
        finally:
            sys.setswitchinterval(self._switch_seconds)
            gc.unfreeze()
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
