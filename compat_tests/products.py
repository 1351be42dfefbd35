"""The servers that the tests and the bench can start: what each must be able to do for the harness, and Magnetar
itself."""

import hashlib
import json
import os
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

INTERPRETER_VARIABLE = "MAGNETAR_INTERPRETER"
CLUSTER_VARIABLE = "MAGNETAR_CLUSTER"
"""When it is set, every server of the tests is a cluster of three brokers and three bookies."""
CLUSTER_METADATA_VARIABLE = "MAGNETAR_CLUSTER_METADATA"
"""A ZooKeeper's host:port for those clusters; each has a chroot of its own there. Without it each has its own
metadata server."""
BOOKIE_KEYS = (
    "diskUsageThreshold",
    "journalMaxSizeMB",
    "flushInterval",
    "gcWaitTime",
    "dbStorage_writeCacheMaxSizeMb",
    "dbStorage_readAheadCacheMaxSizeMb",
)
"""The keys by which tests set up a standalone server's bookie. In a cluster they belong to the bookies."""


ROOM = {"diskUsageThreshold": "0.9995"}
"""A server of users stops writing when a hundredth of its disk is left. The disk of a machine that runs tests may be
nearly full of other people's files, and a hundredth of it is gigabytes."""


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of a running server. `pid` is the server's own process."""

    broker_url: str
    web_url: str
    pid: int
    broker_url_tls: str = ""
    """Empty when the server has no such port."""
    web_url_tls: str = ""
    broker_pid: int = 0
    """The pid of the process that listens on these ports, if it is not the server's own."""
    others: tuple[str, ...] = ()
    """The URLs of further brokers of the same cluster."""

    @property
    def broker_urls(self) -> tuple[str, ...]:
        return (self.broker_url, *self.others)

    @property
    def broker_port(self) -> int:
        return int((self.broker_url or self.broker_url_tls).rpartition(":")[2])

    @property
    def web_port(self) -> int:
        return int((self.web_url or self.web_url_tls).rpartition(":")[2])


class Product(Protocol):
    """What is different between Magnetar and its peer."""

    name: str
    is_peer: bool
    """True for Apache Pulsar, which chooses no ports itself, prints no ready line, and logs ERROR at a healthy
    start."""

    def command(self, folder: Path, ports: tuple[int, int], settings: Mapping[str, str]) -> list[str]:
        """Returns the command line for a data folder, the ports of broker and web (0 stands for any) and configuration
        keys."""

    def wait_ready(self, process: subprocess.Popen[bytes], ports: tuple[int, int], deadline: float) -> Address | None:
        """Blocks until the server can be used. Returns None when the process ended, or at the deadline (monotonic
        seconds)."""


def interpreter() -> list[str]:
    """Returns what precedes `-m magnetar` in our programs' command lines: the tests' own Python, unless
    INTERPRETER_VARIABLE names another one."""
    return shlex.split(os.environ.get(INTERPRETER_VARIABLE, "")) or [sys.executable]


class Magnetar:
    """Runs `python -m magnetar standalone` in the environment of the tests."""

    name = "magnetar"
    is_peer = False

    def __init__(self, program: Sequence[str] = ()) -> None:
        """`program` is what precedes `-m magnetar`, for example a profiler."""
        self._program = list(program) or interpreter()

    def command(self, folder: Path, ports: tuple[int, int], settings: Mapping[str, str]) -> list[str]:
        broker_port, web_port = map(str, ports)
        command = [*self._program, "-m", "magnetar", "standalone", "--data-dir", str(folder), "--ready-json"]
        command += ["--broker-port", broker_port, "--web-port", web_port]
        for key, value in {**ROOM, **settings}.items():
            command += ["--set", f"{key}={value}"]
        return command

    def wait_ready(self, process: subprocess.Popen[bytes], ports: tuple[int, int], deadline: float) -> Address | None:
        assert process.stdout is not None
        line = read_line(process.stdout, deadline)
        if not line.endswith(b"\n"):
            return None
        ready = json.loads(line)
        return Address(
            ready["brokerServiceUrl"],
            ready["webServiceUrl"],
            ready["pid"],
            ready.get("brokerServiceUrlTls", ""),
            ready.get("webServiceUrlTls", ""),
        )


class MagnetarCluster:
    """Runs `python -m magnetar cluster`: brokers, bookies and their metadata below one supervisor. Clients are given
    the first broker's address, and are led on to the other brokers by lookups."""

    name = "magnetar cluster"
    is_peer = False

    def __init__(self, brokers: int = 3, bookies: int = 3, program: Sequence[str] = ()) -> None:
        self.brokers = brokers
        self.bookies = bookies
        self._program = list(program) or interpreter()

    def command(self, folder: Path, ports: tuple[int, int], settings: Mapping[str, str]) -> list[str]:
        command = [*self._program, "-m", "magnetar", "cluster", "--data-dir", str(folder), "--ready-json"]
        command += ["--brokers", str(self.brokers), "--bookies", str(self.bookies), "--cluster", "standalone"]
        if metadata := os.environ.get(CLUSTER_METADATA_VARIABLE):
            command += ["--metadata", f"{metadata}/{hashlib.sha1(str(folder).encode()).hexdigest()}"]
        if 0 not in ports and not (folder / "cluster.json").exists():  # Later starts find the ports of the first one.
            command += ["--broker-port", str(ports[0]), "--web-port", str(ports[1])]
        for key, value in {**ROOM, **settings}.items():
            option = "--bookie-set" if key in BOOKIE_KEYS else "--set"
            command += [option, f"{key}={value}"]
        return command

    def wait_ready(self, process: subprocess.Popen[bytes], ports: tuple[int, int], deadline: float) -> Address | None:
        assert process.stdout is not None
        line = read_line(process.stdout, deadline)
        if not line.endswith(b"\n"):
            return None
        first, *others = json.loads(line)["brokers"]
        return Address(
            first["brokerServiceUrl"],
            first["webServiceUrl"],
            process.pid,
            first.get("brokerServiceUrlTls", ""),
            first.get("webServiceUrlTls", ""),
            first["pid"],
            tuple(each["brokerServiceUrl"] for each in others),
        )


def read_line(stream: IO[bytes], deadline: float) -> bytes:
    """Returns the first line of an unbuffered pipe, or what came before its end or the deadline."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return line
            byte = os.read(stream.fileno(), 1)
            if not byte:
                return line
            line += byte
    return line
