"""`magnetar bookie` as a process, with its folders below one folder; it may be killed and started again."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat_tests.harness import LOOP_WATCH, stall_lines
from compat_tests.products import interpreter, read_line

START_SECONDS = 120
STOP_SECONDS = 60
SESSION_MS = 4_000
"""The ZooKeeper session's length in ms. It is short, because a killed bookie's restart waits for the end of its former
session."""


class BookieStartFailed(AssertionError):
    """The process ended, or was not ready in time. The text is what it logged."""


class OurBookie:
    """A bookie process. The first `start()` takes a free port, and every later one the same port."""

    def __init__(self, folder: Path, zookeeper: str, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = {
            "metadataServiceUri": f"zk+hierarchical://{zookeeper}/ledgers",
            "bookiePort": "0",
            "advertisedAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "journalDirectories": f"{folder}/journal",
            "ledgerDirectories": f"{folder}/ledgers",
            "zkTimeout": str(SESSION_MS),
            "diskUsageThreshold": "0.99",
            "autoRecoveryDaemonEnabled": "false",
            **(settings or {}),
        }
        self.ready: dict[str, Any] = {}
        self.bookie_id = ""
        self.port = 0
        self.process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def spawn(self) -> "subprocess.Popen[bytes]":
        """Starts the process and does not wait for it."""
        command = [*interpreter(), "-m", "magnetar", "bookie", "--ready-json"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                env={**os.environ, **LOOP_WATCH},
            )
        return self.process

    def await_ready(self) -> None:
        """Waits until the bookie is registered. Raises BookieStartFailed."""
        assert self.process.stdout is not None
        line = read_line(self.process.stdout, time.monotonic() + START_SECONDS)
        if not line.endswith(b"\n"):
            self.kill()
            raise BookieStartFailed(self.log[-3000:])
        self.ready = json.loads(line)
        self.bookie_id, self.port = self.ready["bookieId"], self.ready["port"]
        self.settings["bookiePort"] = str(self.port)

    def start(self) -> "OurBookie":
        """Starts the bookie and returns once it is registered. Raises BookieStartFailed."""
        self.spawn()
        self.await_ready()
        return self

    def refused_start(self) -> str:
        """Makes a start that must fail, with an exit code that says so, and returns the last line that it printed."""
        code = self.spawn().wait(START_SECONDS)
        assert code == 1, f"exit code {code}: {self.log[-2000:]}"
        return self.log.splitlines()[-1]

    def stop(self) -> float:
        """Sends SIGTERM and returns the seconds until the process had ended."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_SECONDS) == 0, self.log[-2000:]
        assert stall_lines(self.log) == []
        return time.monotonic() - began

    def kill(self) -> None:
        """Sends SIGKILL; has no effect when the process has ended already."""
        self.process.kill()
        self.process.wait()
