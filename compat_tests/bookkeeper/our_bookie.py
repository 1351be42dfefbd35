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
"""A killed bookie's restart waits for the end of its session."""


class BookieStartFailed(AssertionError):
    """The process ended, or did not get ready in time; the text is what it logged."""


class OurBookie:
    """`start()` takes a free port the first time, the same one later."""

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
        """Raises BookieStartFailed."""
        assert self.process.stdout is not None
        line = read_line(self.process.stdout, time.monotonic() + START_SECONDS)
        if not line.endswith(b"\n"):
            self.kill()
            raise BookieStartFailed(self.log[-3000:])
        self.ready = json.loads(line)
        self.bookie_id, self.port = self.ready["bookieId"], self.ready["port"]
        self.settings["bookiePort"] = str(self.port)

    def start(self) -> "OurBookie":
        """Returns when it is registered. Raises BookieStartFailed."""
        self.spawn()
        self.await_ready()
        return self

    def refused_start(self) -> str:
        """The last line that a start which must fail says; its exit code must tell so too."""
        code = self.spawn().wait(START_SECONDS)
        assert code == 1, f"exit code {code}: {self.log[-2000:]}"
        return self.log.splitlines()[-1]

    def stop(self) -> float:
        """SIGTERM; seconds until it was gone."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_SECONDS) == 0, self.log[-2000:]
        assert stall_lines(self.log) == []
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL; harmless when it is gone."""
        self.process.kill()
        self.process.wait()
