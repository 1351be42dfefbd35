"""Apache Pulsar standalone from a folder of its jars: the peer by which the tests and the bench are checked.

The jars come from Maven Central (`org.apache.pulsar:pulsar-broker:4.0.7` with its runtime dependencies); `NOTES.md`
says how. By default Apache's standalone answers before fsync and leaves acknowledgements of batch indexes off. Both are
turned on here, so that both servers do the same work.
"""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from compat_tests.products import Address

POLL_SECONDS = 0.05

OPENED_PACKAGES = (
    "java.base/sun.net",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/java.util.zip",
    "java.base/sun.nio.ch",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)

CHECKERS = "org.apache.pulsar.broker.service.schema."

CONFIGURATION = {
    "clusterName": "standalone",
    "advertisedAddress": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerDefaultMarkDeleteRateLimit": "0.1",
    "journalSyncData": "true",
    "journalMaxGroupWaitMSec": "1",
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.99",
    "allowAutoTopicCreationType": "non-partitioned",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "webSocketServiceEnabled": "true",
    # Only these three: naming a checker whose class the jars lack would leave the broker without schemas.
    "schemaRegistryCompatibilityCheckers": ",".join(
        f"{CHECKERS}{kind}SchemaCompatibilityCheck" for kind in ("Json", "Avro", "ProtobufNative")
    ),
}


class ApachePulsar:
    """A standalone in one JVM. The documented figures were measured with a `heap_mb` of 2048."""

    name = "apache"
    is_peer = True

    def __init__(self, lib: Path, heap_mb: int = 1024) -> None:
        self._lib = lib
        self._heap_mb = heap_mb

    def command(self, folder: Path, ports: tuple[int, int], settings: Mapping[str, str]) -> list[str]:
        folder.mkdir(parents=True, exist_ok=True)
        conf = folder / "standalone.conf"
        broker_port, web_port = map(str, ports)
        keys = {**CONFIGURATION, "brokerServicePort": broker_port, "webServicePort": web_port, **settings}
        conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        command = ["java", f"-Xmx{self._heap_mb}m", f"-Xms{self._heap_mb // 2}m", "-XX:MaxDirectMemorySize=2g"]
        for package in OPENED_PACKAGES:
            command += ["--add-opens", f"{package}=ALL-UNNAMED"]
        command += ["-cp", f"{self._lib}/*", "org.apache.pulsar.PulsarStandaloneStarter", "--config", str(conf)]
        command += ["--no-functions-worker", "--no-stream-storage", "--advertised-address", "127.0.0.1"]
        return [*command, "--metadata-dir", f"{folder}/metadata", "--bookkeeper-dir", f"{folder}/bookkeeper"]

    def wait_ready(self, process: subprocess.Popen[bytes], ports: tuple[int, int], deadline: float) -> Address | None:
        """Waits for the namespace `public/default`, because the ports answer seconds before it exists."""
        broker_port, web_port = ports
        web_url = f"http://127.0.0.1:{web_port}"
        while process.poll() is None and time.monotonic() < deadline:
            if has_default_namespace(web_url):
                return Address(f"pulsar://127.0.0.1:{broker_port}", web_url, process.pid)
            time.sleep(POLL_SECONDS)
        return None


def has_default_namespace(web_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{web_url}/admin/v2/namespaces/public", timeout=5) as answer:
            return "public/default" in json.load(answer)
    except (OSError, urllib.error.URLError, ValueError):
        return False
