"""Apache's broker and bookie in the seats of a cluster, from the jars of `pulsar-broker`.

The jars are those that `MAGNETAR_PEER_LIB` names; otherwise Apache Maven fetches them once for each user.
"""

import os
import subprocess
import time
import urllib.error
import urllib.request
from typing import Self

from compat_tests import maven_jars
from compat_tests.apache import CONFIGURATION, OPENED_PACKAGES
from compat_tests.cluster.process import HOST, POLL_SECONDS, write_keys
from compat_tests.cluster.seats import BookieSeat, BrokerSeat
from compat_tests.harness import PEER_LIB_VARIABLE, free_port

VERSION = "4.0.7"
JARS = (("org.apache.pulsar", "pulsar-broker", VERSION),)
READY_SECONDS = 5.0
BROKER_START_SECONDS = 400.0
"""Apache's broker starts within half a minute on a machine that is free, and was seen to take more than two minutes on
one of two cores with a load of 50."""


def class_path() -> str:
    maven_jars.need_java()
    peer = os.environ.get(PEER_LIB_VARIABLE)
    return f"{peer}/*" if peer else maven_jars.class_path("pulsar-broker", JARS)


def java(heap_mb: int, direct_mb: int, *main: str) -> list[str]:
    command = ["java", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", f"-XX:MaxDirectMemorySize={direct_mb}m"]
    for package in (*OPENED_PACKAGES, "java.base/java.io"):
        command += ["--add-opens", f"{package}=ALL-UNNAMED"]
    return [*command, "-cp", class_path(), *main]


class ApacheBroker(BrokerSeat):
    """Apache's broker in one JVM. It takes half a minute to start."""

    logs_errors = False
    heap_mb = 768
    direct_mb = 512

    def command(self) -> list[str]:
        for key in ("brokerServicePort", "webServicePort"):
            if self.settings[key] == "0":
                self.settings[key] = str(free_port())
        keys = {
            "allowAutoTopicCreationType": "non-partitioned",
            "schemaRegistryCompatibilityCheckers": CONFIGURATION["schemaRegistryCompatibilityCheckers"],
            **self.settings,
        }
        conf = write_keys(self.folder / "broker.conf", keys)
        return java(self.heap_mb, self.direct_mb, "org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", str(conf))

    def await_ready(self, seconds: float = BROKER_START_SECONDS) -> Self:
        return super().await_ready(seconds)

    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        self.broker_url = f"pulsar://{HOST}:{self.settings['brokerServicePort']}"
        self.web_url = f"http://{HOST}:{self.settings['webServicePort']}"
        while process.poll() is None and time.monotonic() < deadline:
            if answers(f"{self.web_url}/admin/v2/brokers/ready"):
                return True
            time.sleep(POLL_SECONDS)
        return False


class ApacheBookie(BookieSeat):
    """Apache's bookie in one JVM."""

    logs_errors = False
    heap_mb = 256
    direct_mb = 512
    write_cache_mb = 16
    http_url = ""
    """The address of the bookie's HTTP port, once it has been started."""

    def command(self) -> list[str]:
        if self.settings["bookiePort"] == "0":
            self.settings["bookiePort"] = str(free_port())
        self.bookie_id = f"{HOST}:{self.settings['bookiePort']}"
        keys = {
            "allowLoopback": "true",
            "httpServerEnabled": "true",
            "httpServerClass": "org.apache.bookkeeper.http.vertx.VertxHttpServer",
            "httpServerPort": str(free_port()),
            "diskUsageWarnThreshold": "0.99",
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
            "dbStorage_writeCacheMaxSizeMb": str(self.write_cache_mb),
            "dbStorage_readAheadCacheMaxSizeMb": "16",
            **self.settings,
        }
        self.http_url = f"http://{HOST}:{keys['httpServerPort']}"
        conf = write_keys(self.folder / "bk_server.conf", keys)
        return java(self.heap_mb, self.direct_mb, "org.apache.bookkeeper.server.Main", "--conf", str(conf))

    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        """Asks the HTTP port, because the bookie's port opens before the journal is replayed."""
        while process.poll() is None and time.monotonic() < deadline:
            if answers(f"{self.http_url}/api/v1/bookie/is_ready"):
                return True
            time.sleep(POLL_SECONDS)
        return False


def answers(url: str) -> bool:
    """Returns whether the page answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=READY_SECONDS) as answer:
            return bool(200 <= answer.status < 300)
    except (OSError, urllib.error.URLError):
        return False
