"""A cluster of processes as one context manager."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from compat_tests.cluster.process import ClusterProcess
from compat_tests.cluster.seats import (
    BookieSeat,
    BrokerSeat,
    JavaZooKeeper,
    MetadataSeat,
    OurBookie,
    OurBroker,
    bookie_settings,
    broker_settings,
)
from compat_tests.harness import ServerFailedError
from compat_tests.products import interpreter

CLUSTER = "c1"
SETUP_SECONDS = 60
ENSEMBLE_MAX = 3

MakeMetadata = Callable[[str, Path], MetadataSeat]


@dataclass(frozen=True, slots=True)
class Seats:
    """Whose software sits in each seat: the class of each process."""

    metadata: MakeMetadata = JavaZooKeeper
    bookie: type[BookieSeat] = OurBookie
    broker: type[BrokerSeat] = OurBroker


class Cluster:
    """One cluster. Use it as a context manager, or call `start` and `close`.

    `settings` are keys of broker.conf for every broker, `bookie_keys` keys of bk_server.conf for every bookie. A test
    appends texts of ERROR lines that it provokes on purpose to `allowed_errors`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        bookies: int = 1,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        bookie_keys: Mapping[str, str] | None = None,
        seats: Seats | None = None,
        name: str = CLUSTER,
    ) -> None:
        self.folder = folder
        self.name = name
        self.seats = seats or Seats()
        self.zookeeper = self.seats.metadata("zookeeper", folder)
        self.bookies: list[BookieSeat] = []
        self.brokers: list[BrokerSeat] = []
        self.allowed_errors: list[str] = []
        self._settings = dict(settings or {})
        self._bookie_keys = dict(bookie_keys or {})
        self._ensemble = min(bookies, ENSEMBLE_MAX)
        for _ in range(bookies):
            self.add_bookie()
        for _ in range(brokers):
            self.add_broker()

    @property
    def service_url(self) -> str:
        """The address for clients, which names every broker."""
        return "pulsar://" + ",".join(broker.broker_url.removeprefix("pulsar://") for broker in self.brokers)

    @property
    def processes(self) -> list[ClusterProcess]:
        """All processes in the order of their start."""
        return [self.zookeeper, *self.bookies, *self.brokers]

    def add_bookie(self, kind: type[BookieSeat] | None = None, **settings: str) -> BookieSeat:
        """Returns a further bookie, which is not started yet."""
        name = f"bookie{len(self.bookies)}"
        keys = bookie_settings(self.folder / name, self.zookeeper)
        made = (kind or self.seats.bookie)(name, self.folder, keys | self._bookie_keys | settings)
        self.bookies.append(made)
        return made

    def add_broker(self, kind: type[BrokerSeat] | None = None, **settings: str) -> BrokerSeat:
        """Returns a further broker, which is not started yet."""
        keys = broker_settings(self.name, self.zookeeper, self._ensemble)
        made = (kind or self.seats.broker)(f"broker{len(self.brokers)}", self.folder, keys | self._settings | settings)
        self.brokers.append(made)
        return made

    def start(self) -> Self:
        """Starts everything; processes of one kind start at the same time. Raises ServerFailedError."""
        self.zookeeper.start()
        self.initialize()
        for kind in (self.bookies, self.brokers):
            start_all(kind)
        return self

    def initialize(self) -> None:
        """Makes the cluster's metadata. Raises ServerFailedError."""
        command = [*interpreter(), "-m", "magnetar", "initialize-cluster-metadata", "--cluster", self.name]
        command += ["--metadata-store", self.zookeeper.url, "--configuration-metadata-store", self.zookeeper.url]
        command += ["--web-service-url", "http://127.0.0.1:8080", "--broker-service-url", "pulsar://127.0.0.1:6650"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SETUP_SECONDS)
        if done.returncode != 0:
            raise ServerFailedError(f"initialize-cluster-metadata: {done.stdout}{done.stderr}")

    def close(self) -> None:
        """Stops every process, the last started first. Afterwards all of them are gone, whatever happened before."""
        faults: list[Exception] = []
        for each in (*reversed(self.brokers), *reversed(self.bookies), self.zookeeper):
            try:
                each.close()
            except Exception as error:
                faults.append(error)
        if faults:
            raise ServerFailedError("\n".join(map(str, faults)))

    def error_lines(self) -> list[str]:
        """Returns the ERROR lines of all logs that no text of `allowed_errors` excuses."""
        lines = [line for each in self.processes for line in each.error_lines()]
        return [line for line in lines if not any(text in line for text in self.allowed_errors)]

    def assert_no_errors(self) -> None:
        if bad := self.error_lines():
            raise ServerFailedError("\n".join([f"{len(bad)} error lines in the logs:", *bad[:20]]))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self.assert_no_errors()


def start_all(processes: Sequence[ClusterProcess]) -> None:
    """Starts processes at the same time, and returns when all of them serve. Raises ServerFailedError."""
    with ThreadPoolExecutor(max(1, len(processes))) as pool:
        for started in [pool.submit(each.start) for each in processes]:
            started.result()
