"""Processes of our own ZooKeeper server for tests, with the same handles as those of Java's."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, free_ports

ServerT = TypeVar("ServerT", bound=ZooKeeperServer)


class OwnServer(ZooKeeperServer):
    """One process of `magnetar zookeeper`."""

    def launch(self) -> None:
        assert self._process is None
        command = [sys.executable, "-m", "magnetar", "zookeeper", "--conf", str(self.folder / "zoo.cfg")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def terminate(self) -> int:
        """Asks for an orderly stop and waits for it; returns the exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        os.kill(process.pid, signal.SIGTERM)
        return process.wait()


@contextlib.contextmanager
def running(folder: Path, kind: type[ServerT], extra: str = "") -> Iterator[ServerT]:
    """A single server of this kind, for fixtures."""
    server = kind(folder / "zookeeper", free_ports(1)[0], extra)
    server.launch()
    try:
        asyncio.run(server.ready())
        yield server
    finally:
        server.kill()


KINDS = [pytest.param(ZooKeeperServer, id="java"), pytest.param(OwnServer, id="own")]
"""The kinds of servers that tests of clients run on."""
