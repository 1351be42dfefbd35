"""Our processes in the seats of a cluster: `magnetar broker`, `magnetar bookie`, and Apache's ZooKeeper.

Apache's broker and bookie, which fit the same seats, are in `apache_seats`.
"""

import json
import socket
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat_tests import maven_jars
from compat_tests.cluster.process import HOST, POLL_SECONDS, ClusterProcess, key_options
from compat_tests.harness import free_port
from compat_tests.products import interpreter, read_line

ZOOKEEPER_VERSION = "3.9.3"
ZOOKEEPER_JARS = (
    ("org.apache.zookeeper", "zookeeper", ZOOKEEPER_VERSION),
    # ZooKeeper's pom does not name these; the one who runs the server has to add them.
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "1.7.30"),
)
TICK_MS = 500
"""Half a second lets a session be as short as one second."""
SESSION_MS = 4_000
"""The sessions of brokers and bookies in ms, unless a test sets another time. They are short, so that a takeover after
a kill does not take the half minute of Apache's default."""


class MetadataSeat(ClusterProcess):
    """A server of the metadata store."""

    def __init__(
        self, name: str, folder: Path, *, program: Sequence[str] = (), host: str = HOST, port: int = 0
    ) -> None:
        super().__init__(name, folder, program=program)
        self.host = host
        self.port = port or free_port()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The metadataStoreUrl."""
        return f"zk:{self.address}"

    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        while process.poll() is None and time.monotonic() < deadline:
            if self.four_letter_word("srvr"):
                return True
            time.sleep(POLL_SECONDS)
        return False

    def four_letter_word(self, word: str) -> str:
        """Returns the server's answer, or "" when it gives none."""
        try:
            with socket.create_connection((self.host, self.port), 5) as sock:
                sock.sendall(word.encode())
                return b"".join(iter(lambda: sock.recv(65536), b"")).decode()
        except OSError:
            return ""


class JavaZooKeeper(MetadataSeat):
    """Apache's ZooKeeper, one server without an ensemble."""

    logs_errors = False

    def command(self) -> list[str]:
        maven_jars.need_java()
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        conf = self.folder / "zoo.cfg"
        conf.write_text(
            f"tickTime={TICK_MS}\ndataDir={data}\nclientPort={self.port}\nclientPortAddress={self.host}\n"
            f"admin.enableServer=false\nmaxClientCnxns=0\nminSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout=60000\n"
            "4lw.commands.whitelist=*\n"
        )
        command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"]
        command += ["-cp", maven_jars.class_path("zookeeper", ZOOKEEPER_JARS)]
        return [*command, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(conf)]


class ConfiguredProcess(ClusterProcess):
    """A process whose configuration is keys of broker.conf or bk_server.conf. `settings` may be changed between two
    starts."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, str], *, program: Sequence[str] = ()) -> None:
        super().__init__(name, folder, program=program)
        self.settings = dict(settings)
        self.ready: dict[str, Any] = {}
        """The ready line of our process."""

    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        assert process.stdout is not None
        line = read_line(process.stdout, deadline)
        if not line.endswith(b"\n"):
            return False
        self.ready = json.loads(line)
        self.note_ports()
        return True

    @abstractmethod
    def note_ports(self) -> None:
        """Puts the ports of the ready line into the settings, so that later starts take the same."""


class BookieSeat(ConfiguredProcess):
    """A bookie, which is told apart by its id."""

    bookie_id = ""

    def note_ports(self) -> None:
        self.bookie_id = self.ready["bookieId"]
        self.settings["bookiePort"] = str(self.ready["port"])


class OurBookie(BookieSeat):
    """`magnetar bookie`."""

    def command(self) -> list[str]:
        return [*interpreter(), "-m", "magnetar", "bookie", "--ready-json", *key_options(self.settings)]


class BrokerSeat(ConfiguredProcess):
    """A broker, with its addresses once it has been started."""

    broker_url = ""
    web_url = ""

    @property
    def broker_id(self) -> str:
        return self.web_url.removeprefix("http://")

    def note_ports(self) -> None:
        self.broker_url, self.web_url = self.ready["brokerServiceUrl"], self.ready["webServiceUrl"]
        for key, url in (("brokerServicePort", self.broker_url), ("webServicePort", self.web_url)):
            self.settings[key] = url.rpartition(":")[2]


class OurBroker(BrokerSeat):
    """`magnetar broker`."""

    def command(self) -> list[str]:
        return [*interpreter(), "-m", "magnetar", "broker", "--ready-json", *key_options(self.settings)]


def bookie_settings(folder: Path, zookeeper: MetadataSeat) -> dict[str, str]:
    """Returns the keys of bk_server.conf that every bookie of a test's cluster has."""
    return {
        "metadataServiceUri": f"zk+hierarchical://{zookeeper.address}/ledgers",
        "bookiePort": "0",
        "advertisedAddress": HOST,
        "listeningInterface": "lo",
        "journalDirectories": str(folder / "journal"),
        "ledgerDirectories": str(folder / "ledgers"),
        "zkTimeout": str(SESSION_MS),
        "diskUsageThreshold": "0.99",
        "autoRecoveryDaemonEnabled": "false",
    }


def broker_settings(cluster: str, zookeeper: MetadataSeat, ensemble: int) -> dict[str, str]:
    """Returns the keys of broker.conf that every broker of a test's cluster has; `ensemble` bookies hold each entry,
    and all but one of three or more must have it before it is acknowledged."""
    return {
        "clusterName": cluster,
        "metadataStoreUrl": zookeeper.url,
        "configurationMetadataStoreUrl": zookeeper.url,
        "metadataStoreSessionTimeoutMillis": str(SESSION_MS),
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "brokerServicePort": "0",
        "webServicePort": "0",
        "managedLedgerDefaultEnsembleSize": str(ensemble),
        "managedLedgerDefaultWriteQuorum": str(ensemble),
        "managedLedgerDefaultAckQuorum": str(max(1, ensemble - 1) if ensemble > 2 else ensemble),
        "acknowledgmentAtBatchIndexLevelEnabled": "true",
        # The machine's other work must not decide where a test's bundles go.
        "loadBalancerCPUResourceWeight": "0",
    }
