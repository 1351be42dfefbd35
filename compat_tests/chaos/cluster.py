"""The cluster of a chaos run: ZooKeeper, bookies and brokers of ours, each on a node of its own of the network."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.chaos.network import CLIENTS, Network
from compat_tests.chaos.plan import Shape
from compat_tests.chaos.seats import (
    BROKER_PORT,
    CLUSTER,
    WEB_PORT,
    ZOOKEEPER_PORT,
    Keeper,
    bookie_keys,
    broker_keys,
    wait_serving,
)
from compat_tests.chaos.shim import Controls, compile_shim, compiler
from compat_tests.cluster.own_zookeeper import OwnZooKeeper
from compat_tests.cluster.process import ClusterProcess
from compat_tests.cluster.seats import OurBookie, OurBroker
from compat_tests.harness import CPU_LIMIT_VARIABLE
from compat_tests.products import interpreter

ZOOKEEPER = "zookeeper"
BOOKIES, BROKERS = 4, 2
TINY_DISK_MB, DISK_MB = 160, 1024
"""Each process has a file system of its own in memory, so that a round takes its faults from the plan and not from a
disk that others use. A process that is killed loses nothing of it."""
SETUP_SECONDS = 60
STARTED_SECONDS = 300.0
LOOP_CPU_LIMIT_MS = 100
"""Callbacks that hold an event loop are looked for elsewhere. Here many processes share few cores, and a callback that
waits for its memory takes CPU time, too."""


def shape() -> Shape:
    """Returns the nodes of every chaos cluster. The last bookie's disk is a small file system of its own."""
    bookies = tuple(f"bookie{number}" for number in range(BOOKIES))
    brokers = tuple(f"broker{number}" for number in range(BROKERS))
    return Shape(ZOOKEEPER, bookies, brokers, CLIENTS, tiny_disk=bookies[-1], has_shim=bool(compiler()))


class ChaosCluster:
    """A running cluster. It must be made inside namespaces of its own, and is a context manager: afterwards every
    process is gone. It has what the soak's stage wants of a server."""

    def __init__(self, folder: Path, seed: int, quorums: tuple[int, int, int]) -> None:
        self.shape = shape()
        self.folder = folder
        self.log_path = folder / "log"
        self.network = Network(self.shape.servers, seed)
        library = compile_shim(folder) if self.shape.has_shim else None
        self.keepers: dict[str, Keeper] = {}
        self.controls: dict[str, Controls] = {}
        for name in self.shape.servers:
            (folder / name).mkdir()
            size = TINY_DISK_MB if name == self.shape.tiny_disk else DISK_MB
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder / name)], check=True)
            self.controls[name] = Controls(folder / f"{name}.control")
            process = self._process(name, quorums)
            process.environment |= {"PYTHONFAULTHANDLER": "1", CPU_LIMIT_VARIABLE: str(LOOP_CPU_LIMIT_MS)}
            if library is not None:
                process.environment |= self.controls[name].environment(library)
            process.log_path = folder / f"{name}.log"  # not on its disk, which goes away
            self.keepers[name] = Keeper(process)

    @property
    def broker_url(self) -> str:
        """The service URL for clients, which names every broker."""
        hosts = [self.broker_url_of(name).removeprefix("pulsar://") for name in self.shape.brokers]
        return "pulsar://" + ",".join(hosts)

    def broker_url_of(self, broker: str) -> str:
        return f"pulsar://{self.network.addresses[broker]}:{BROKER_PORT}"

    @property
    def web_url(self) -> str:
        """The HTTP address of the first broker, which leads every call on."""
        return self.web_url_of(self.shape.brokers[0])

    def web_url_of(self, broker: str) -> str:
        return f"http://{self.network.addresses[broker]}:{WEB_PORT}"

    def folder_of(self, name: str) -> Path:
        return self.folder / name

    def start(self) -> None:
        """Starts everything. Raises TimeoutError when a process does not serve."""
        self.keepers[ZOOKEEPER].start()
        wait_serving({ZOOKEEPER: self.keepers[ZOOKEEPER]}, STARTED_SECONDS)
        self._initialize()
        for names in (self.shape.bookies, self.shape.brokers):
            for name in names:
                self.keepers[name].start()
            wait_serving({name: self.keepers[name] for name in names}, STARTED_SECONDS)

    def error_lines(self) -> list[str]:
        return [line for keeper in self.keepers.values() for line in keeper.process.error_lines()]

    def _process(self, name: str, quorums: tuple[int, int, int]) -> ClusterProcess:
        enter, address = self.network.enter(name), self.network.addresses[name]
        zookeeper = self.network.addresses[ZOOKEEPER]
        if name == ZOOKEEPER:
            return OwnZooKeeper(name, self.folder, program=enter, host=address, port=ZOOKEEPER_PORT)
        if name in self.shape.bookies:
            return OurBookie(name, self.folder, bookie_keys(address, zookeeper, self.folder / name), program=enter)
        return OurBroker(name, self.folder, broker_keys(address, zookeeper, quorums), program=enter)

    def _initialize(self) -> None:
        """Makes the cluster's metadata, as an operator does."""
        url = f"zk:{self.network.addresses[ZOOKEEPER]}:{ZOOKEEPER_PORT}"
        command = [*interpreter(), "-m", "magnetar", "initialize-cluster-metadata", "--cluster", CLUSTER]
        command += ["--metadata-store", url, "--configuration-metadata-store", url]
        command += ["--web-service-url", self.web_url, "--broker-service-url", self.broker_url]
        subprocess.run(command, check=True, capture_output=True, timeout=SETUP_SECONDS)

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

    def close(self) -> None:
        for keeper in reversed(self.keepers.values()):
            keeper.close()
        self.network.close()
        for name in self.shape.servers:
            subprocess.run(["umount", str(self.folder_of(name))], check=False)
