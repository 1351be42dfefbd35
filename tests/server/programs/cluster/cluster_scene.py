"""A supervisor as a process, with real bookies over a real ZooKeeper and the brokers of `fake_program`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests.products import read_line

START_SECONDS = 60
WAIT_SECONDS = 30

LAUNCH = """
import sys
from pathlib import Path
from magnetar.server.process.running import run_app
from magnetar.server.programs.cluster.cluster_rules import Wishes
from magnetar.server.programs.cluster.supervisor import ClusterApp, ClusterOptions
folder, metadata, brokers, bookies, *program = sys.argv[1:]
wishes = Wishes(brokers=int(brokers), bookies=int(bookies), metadata_url=metadata)
program = (sys.executable, "-m", *program)
sys.exit(run_app(ClusterApp(ClusterOptions(Path(folder), wishes, ready_json=True, program=program)), log_level="INFO"))
"""


class Supervisor:
    """One `magnetar cluster`; it may be killed and started again."""

    def __init__(
        self, folder: Path, metadata: str, program: Sequence[str] = ("tests.server.programs.cluster.fake_program",)
    ) -> None:
        """`program` is the module that stands for `magnetar`, with its first arguments. Without a `metadata` the
        cluster has a ZooKeeper server of its own."""
        self.data = folder / "data"
        self.metadata = metadata
        self.program = program
        self.log_path = folder / "log"
        self.ready: dict[str, Any] = {}
        self.process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def processes(self) -> dict[str, Any]:
        """What the supervisor says of its processes now."""
        found: dict[str, Any] = json.loads((self.data / "processes.json").read_text())
        return found

    def pids(self) -> list[int]:
        return [each["pid"] for kind in ("brokers", "bookies") for each in self.processes[kind]]

    def broker_folder(self, number: int) -> Path:
        folder = self.data / f"broker-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def spawn(self, brokers: int = 2, bookies: int = 1) -> None:
        words: Sequence[str] = [str(self.data), self.metadata, str(brokers), str(bookies), *self.program]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, *words], stdout=subprocess.PIPE, stderr=log, bufsize=0
            )

    def start(self, brokers: int = 2, bookies: int = 1) -> "Supervisor":
        self.spawn(brokers, bookies)
        assert self.process.stdout is not None
        line = read_line(self.process.stdout, time.monotonic() + START_SECONDS)
        assert line.endswith(b"\n"), self.log
        self.ready = json.loads(line)
        return self

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(WAIT_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # The process of a killed supervisor may wait for whoever inherits it to take note of its end.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
