"""A pytest plugin for kazoo's own test-suite: its harness gets one server of `magnetar zookeeper` for its cluster of
Java's servers. It runs in the interpreter of the suite and imports nothing of ours.

MAGNETAR names the command, MAGNETAR_DATA a folder.
"""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import kazoo.testing.harness  # type: ignore[import-not-found]

READY_SECONDS = 30.0
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
"""What the suite expects of its servers: the password of `super` is "test"."""
TICK_MS = 2000


class Server:
    """One server on a port that stays the same. The names are those of kazoo's ManagedZooKeeper."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.client_port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.client_port}"
        self.secure_address = self.address
        self.folder = Path(os.environ["MAGNETAR_DATA"]) / str(self.client_port)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self.process is not None

    def run(self) -> None:
        settings = {
            "tickTime": TICK_MS,
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
        }
        command = [*shlex.split(os.environ["MAGNETAR"]), "zookeeper", "--port", str(self.client_port), "--ready-json"]
        command += ["--data-dir", str(self.folder)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        until = time.monotonic() + READY_SECONDS
        assert self.process.stdout.readline(), (self.folder / "log").read_text()
        assert time.monotonic() < until

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
            self.process = None

    def get_logs(self, num_lines: int = 100) -> list[str]:
        return (self.folder / "log").read_text().splitlines()[-num_lines:]


class Cluster:
    """A cluster of one. The names are those of kazoo's ZookeeperCluster."""

    def __init__(self) -> None:
        self.servers = [Server()]

    def __getitem__(self, number: int) -> Server:
        return self.servers[number]

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def start(self) -> None:
        for server in self.servers:
            if not server.running:
                server.run()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    terminate = stop
    reset = stop

    def get_logs(self) -> list[str]:
        return [line for server in self.servers for line in server.get_logs()]


CLUSTER = Cluster()
kazoo.testing.harness.get_global_cluster = lambda: CLUSTER


def pytest_unconfigure() -> None:
    CLUSTER.stop()
