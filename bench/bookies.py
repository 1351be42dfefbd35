"""The bookies' scenario: one and three bookies, ours or Apache's, loaded by Apache's client and by ours.

All processes run on this machine with a ZooKeeper. Every add is durable on disk before it is answered.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from bench.process_stats import cpu_seconds, memory_mb
from bench.sizes import Figures, Sizes
from compat_tests.bookkeeper.apache_bookkeeper import OPENED, Cluster, class_path
from compat_tests.products import Product

BYTES = 1024
WINDOW = 1_000
READ_BATCH = 1_000
PACE_PER_SECOND = 1_000
CLIENT_SECONDS = 600

BOOKIE_JVM = ["java", "-XX:+UseSerialGC", "-Xms128m", "-Xmx256m", "-XX:MaxDirectMemorySize=512m"]
BOOKIE_JVM += [word for package in OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
"""The documented figures of Apache's bookies were measured with this command."""
LOAD_JVM = ["java", "-Xms512m", "-Xmx1g", *BOOKIE_JVM[4:]]
SOURCE = Path(__file__).with_name("BookieLoad.java")


class BookieProcess(Protocol):
    process: "subprocess.Popen[bytes]"

    def start(self) -> object: ...

    def stop(self) -> object: ...


class Done(NamedTuple):
    ledger_id: int
    seconds: float
    p50_ms: float
    p99_ms: float


class Load:
    """Apache's client in a JVM of its own, which stays warm from one command to the next."""

    def __init__(self, cluster: Cluster, protocol: str) -> None:
        self._log = cluster.folder / f"load-{protocol}.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*LOAD_JVM, "-cp", cluster.jars, str(SOURCE), cluster.zookeeper, protocol],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self, *command: object) -> Done:
        """Runs one command and returns its result. Raises RuntimeError with what the client said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, command)) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("DONE "):
                ledger_id, *figures = line.split()[1:]
                return Done(int(ledger_id), *map(float, figures))
        raise RuntimeError(f"{command}: {self._log.read_text()[-3000:]}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Scene:
    """A cluster with some bookies of one kind, ours or Apache's."""

    def __init__(self, cluster: Cluster, bookies: Sequence[BookieProcess]) -> None:
        self.cluster = cluster
        self.bookies = bookies

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(bookie.process.pid) for bookie in self.bookies)

    def memory_mb(self) -> float:
        """Returns the memory of the largest bookie in MB."""
        return max(memory_mb(bookie.process.pid) for bookie in self.bookies)

    def measured(self, entries: int, run: Callable[[], Done]) -> tuple[Done, float]:
        """Runs a load and returns its result with the CPU seconds that the bookies needed for a million entries."""
        before = self.cpu_seconds()
        done = run()
        return done, (self.cpu_seconds() - before) / entries * 1e6


@contextmanager
def scene(product: Product, count: int) -> Iterator[Scene]:
    folder = Path(tempfile.mkdtemp(prefix=f"bench-bookies-{product.name}-"))
    cluster = Cluster(folder, class_path(), BOOKIE_JVM)
    try:
        cluster.start()
        bookies: list[BookieProcess] = []
        for number in range(count):
            made = cluster.apache_bookie if product.is_peer else cluster.bookie
            bookie: BookieProcess = made(f"bookie{number}")
            bookie.start()
            bookies.append(bookie)
        yield Scene(cluster, bookies)
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def loaded(cluster: Cluster, protocol: str) -> Iterator[Load]:
    load = Load(cluster, protocol)
    try:
        yield load
    finally:
        load.close()


def bookies(product: Product, sizes: Sizes) -> Figures:
    """Measures bookies. Returns no figures when Java or Apache's jars are not available."""
    try:
        class_path()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        print(f"bookies are not measured: {error}", file=sys.stderr, flush=True)
        return {}
    figures: Figures = {}
    with scene(product, 1) as one:
        figures |= single(one, sizes)
    with scene(product, 3) as three:
        for protocol in ("v2", "v3"):
            figures |= replicated(three, protocol, sizes)
        figures["bookie_memory"] = three.memory_mb()
        figures |= our_client(three, sizes)
    return figures


def single(one: Scene, sizes: Sizes) -> Figures:
    with loaded(one.cluster, "v2") as load:
        add = ("add", 1, 1, 1, sizes.bookie_adds, WINDOW, BYTES)
        load.run(*add)
        runs = [one.measured(sizes.bookie_adds, lambda: load.run(*add)) for _ in range(sizes.runs)]
        ledger_id = runs[-1][0].ledger_id
        read = ("read", ledger_id, sizes.bookie_adds, READ_BATCH)
        load.run(*read)
        (bookie,) = one.bookies
        bookie.stop()
        bookie.start()
        done, read_cpu = one.measured(sizes.bookie_adds, lambda: load.run(*read))
    return {
        "bookie_rate": median_rate(runs, sizes.bookie_adds),
        "bookie_cpu": statistics.median(cpu for _, cpu in runs),
        "bookie_read_rate": sizes.bookie_adds / done.seconds / 1000,
        "bookie_read_cpu": read_cpu,
    }


def replicated(three: Scene, protocol: str, sizes: Sizes) -> Figures:
    """Measures ledgers with an ensemble of 3, a write quorum of 3 and an ack quorum of 2."""
    entries = sizes.bookies_adds
    with loaded(three.cluster, protocol) as load:
        add = ("add", 3, 3, 2, entries, WINDOW, BYTES)
        load.run(*add)
        runs = [three.measured(entries, lambda: load.run(*add)) for _ in range(sizes.runs)]
        figures = {
            f"bookies_{protocol}_rate": median_rate(runs, entries),
            f"bookies_{protocol}_cpu": statistics.median(cpu for _, cpu in runs),
        }
        if protocol == "v2":
            paced = load.run("pace", 3, 3, 2, PACE_PER_SECOND * sizes.latency_seconds, PACE_PER_SECOND, BYTES)
            figures |= {"bookies_p50": paced.p50_ms, "bookies_p99": paced.p99_ms}
    return figures


def median_rate(runs: Sequence[tuple[Done, float]], entries: int) -> float:
    """Returns the median rate in thousands of entries a second."""
    return statistics.median(entries / done.seconds for done, _ in runs) / 1000


def our_client(three: Scene, sizes: Sizes) -> Figures:
    command = [sys.executable, "-m", "bench.bookie_client", three.cluster.zookeeper]
    command += ["--entries", str(sizes.bookies_adds), "--window", str(WINDOW), "--bytes", str(BYTES)]
    runs = []
    for _ in range(sizes.runs):
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=CLIENT_SECONDS, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {
        "client_add_rate": statistics.median(run["add_rate"] for run in runs) / 1000,
        "client_add_cpu": statistics.median(run["add_cpu"] for run in runs),
        "client_read_rate": statistics.median(run["read_rate"] for run in runs) / 1000,
        "client_read_cpu": statistics.median(run["read_cpu"] for run in runs),
    }
