"""Apache BookKeeper 4.17.2 and its ZooKeeper from Maven Central: class path, processes, tools.

The jars are those in `MAGNETAR_PEER_LIB`; otherwise Apache Maven fetches them once for each user into a cache folder.
Without Java or the jars the tests skip with the reason, or fail when CI=true.
"""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compat_tests import maven_jars
from compat_tests.bookkeeper.our_bookie import START_SECONDS, OurBookie
from compat_tests.harness import PEER_LIB_VARIABLE
from compat_tests.products import read_line

VERSION = "4.17.2"
DEPENDENCIES = (
    ("org.apache.bookkeeper", "bookkeeper-server", VERSION),
    # ZooKeeper's pom does not include these, because each user of the server chooses them.
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
)
COMMAND_SECONDS = 120
POLL_SECONDS = 0.05

OPENED = ("java.nio", "jdk.internal.misc", "sun.nio.ch", "java.io", "java.util.zip")
JVM = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
JVM += [word for package in OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]

SOURCES = Path(__file__).parent
SMALL_CACHES = {"dbStorage_writeCacheMaxSizeMb": "16", "dbStorage_readAheadCacheMaxSizeMb": "16"}


def class_path() -> str:
    maven_jars.need_java()
    peer = os.environ.get(PEER_LIB_VARIABLE)
    if peer and list(Path(peer).glob("bookkeeper-server-*.jar")):
        return f"{peer}/*"
    return maven_jars.class_path("bookkeeper", DEPENDENCIES)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """A ZooKeeper with BookKeeper's records in it. Our bookies and Apache's are started in this cluster."""

    def __init__(self, folder: Path, jars: str, jvm: Sequence[str] = JVM) -> None:
        """`jvm` is the command that runs Apache's processes."""
        self.jvm = jvm
        self.folder = folder
        self.jars = jars
        self.zookeeper = f"127.0.0.1:{free_port()}"
        self.conf = folder / "client.conf"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._bookies: list[OurBookie] = []
        self._shells: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        data = self.folder / "zookeeper"
        data.mkdir(parents=True)
        host, port = self.zookeeper.split(":")
        (self.folder / "zoo.cfg").write_text(
            f"tickTime=1000\ndataDir={data}\nclientPort={port}\nclientPortAddress={host}\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=*\n"
        )
        self.spawn("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg"))
        self._wait_for_port(int(port))
        self.conf.write_text(
            f"metadataServiceUri=zk+hierarchical://{self.zookeeper}/ledgers\nallowLoopback=true\nthrottle=0\n"
        )
        assert self.shell("initnewcluster").returncode == 0

    def spawn(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [*self.jvm, "-cp", self.jars, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._processes.append(process)
        return process

    def _wait_for_port(self, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, f"nothing listens on port {port}"
                time.sleep(POLL_SECONDS)

    def bookie(self, name: str, **settings: str) -> OurBookie:
        """Returns one of our bookies, which is not started yet. `settings` are keys of bk_server.conf."""
        made = OurBookie(self.folder / name, self.zookeeper, settings)
        self._bookies.append(made)
        return made

    def start_bookie(self, name: str, **settings: str) -> OurBookie:
        """Starts one of our bookies in a process of its own, and returns it once it is registered."""
        return self.bookie(name, **settings).start()

    def start_apache_bookie(self, name: str) -> str:
        """Starts one of Apache's bookies, and returns its id once it is registered."""
        return self.apache_bookie(name, **SMALL_CACHES).start().bookie_id

    def apache_bookie(self, name: str, **settings: str) -> "ApacheBookie":
        """Returns one of Apache's bookies, which is not started yet. `settings` are further keys of bk_server.conf."""
        return ApacheBookie(self, name, settings)

    def shell(self, *words: str, conf: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Runs a command of Apache's BookieShell to its end. One JVM runs all commands that have the same `conf`."""
        conf = conf or self.conf
        running = self._shells.get(conf)
        if running is None:
            running = self._shells[conf] = self._start_shell(conf)
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(f"{' '.join(words)}\n".encode())
        running.stdin.flush()
        output = ""
        deadline = time.monotonic() + COMMAND_SECONDS
        while (line := read_line(running.stdout, deadline).decode()) and not line.startswith("EXIT "):
            output += line
        assert line, f"{words} did not end: {output[-2000:]}{(self.folder / 'Shell.log').read_text()[-2000:]}"
        return subprocess.CompletedProcess(words, int(line.split()[1]), output, "")

    def _start_shell(self, conf: Path) -> "subprocess.Popen[bytes]":
        with open(self.folder / "Shell.log", "ab") as log:
            process = subprocess.Popen(
                [*JVM, "-cp", self.jars, str(SOURCES / "Shell.java"), str(conf)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        self._processes.append(process)
        return process

    def judge(self, *words: str) -> "subprocess.Popen[str]":
        """Starts `Judge.java` with Apache's client; its standard streams are pipes."""
        with open(self.folder / "judge.log", "ab") as log:
            return subprocess.Popen(
                [*JVM, "-cp", self.jars, str(SOURCES / "Judge.java"), self.zookeeper, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def close(self) -> None:
        ours = [bookie.process for bookie in self._bookies if hasattr(bookie, "process")]
        for process in [*ours, *reversed(self._processes)]:
            process.kill()
            process.wait()


class ApacheBookie:
    """A process of Apache's bookie, which may be stopped and started again."""

    def __init__(self, cluster: Cluster, name: str, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._name = name
        port = free_port()
        self.bookie_id = f"127.0.0.1:{port}"
        folder = cluster.folder / name
        folder.mkdir()
        self._conf = folder / "bk_server.conf"
        keys = {
            "metadataServiceUri": f"zk+hierarchical://{cluster.zookeeper}/ledgers",
            "bookiePort": str(port),
            "advertisedAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "allowLoopback": "true",
            "httpServerEnabled": "false",
            "journalDirectories": f"{folder}/journal",
            "ledgerDirectories": f"{folder}/ledgers",
            "diskUsageThreshold": "0.99",
            "diskUsageWarnThreshold": "0.99",
            "autoRecoveryDaemonEnabled": "false",
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
            **settings,
        }
        self._conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        self.process: subprocess.Popen[bytes]

    def start(self) -> "ApacheBookie":
        """Returns once the bookie is registered. Its port is no sign of that, because it opens before the journal is
        replayed."""
        self.process = self._cluster.spawn(self._name, "org.apache.bookkeeper.server.Main", "--conf", str(self._conf))
        deadline = time.monotonic() + START_SECONDS
        while self.bookie_id not in self._cluster.shell("listbookies", "-rw").stdout:
            log = self._cluster.folder / f"{self._name}.log"
            assert self.process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, f"Apache's bookie {self.bookie_id} did not register"
        return self

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(folder, class_path())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
