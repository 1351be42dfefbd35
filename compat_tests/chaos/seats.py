"""Our processes on the nodes of a chaos network, and the keepers that start them again."""

import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from compat_tests.chaos.plan import SESSION_SECONDS
from compat_tests.cluster.process import ClusterProcess
from compat_tests.harness import wait_until

CLUSTER = "chaos"
ZOOKEEPER_PORT, BOOKIE_PORT, BROKER_PORT, WEB_PORT = 2181, 3181, 6650, 8080
SESSION_MS = str(int(SESSION_SECONDS * 1000))
BOOKIE_TIMEOUT_SECONDS = 5
"""After this time a broker gives a silent bookie up."""
START_SECONDS = 180.0
AGAIN_AFTER_SECONDS = 0.5
STOPPED_SECONDS = 120.0
POLL_SECONDS = 0.02
BOOKIE_KEYS = {
    "bookiePort": str(BOOKIE_PORT),
    "diskUsageThreshold": "0.95",
    "diskCheckInterval": "500",
    "journalMaxSizeMB": "8",
    "dbStorage_writeCacheMaxSizeMb": "8",
    "dbStorage_readAheadCacheMaxSizeMb": "8",
    "zkTimeout": SESSION_MS,
    "autoRecoveryDaemonEnabled": "true",
    "openLedgerRereplicationGracePeriod": "2000",
}
BROKER_KEYS = {
    "clusterName": CLUSTER,
    "metadataStoreSessionTimeoutMillis": SESSION_MS,
    "metadataStoreOperationTimeoutSeconds": "10",
    "brokerServicePort": str(BROKER_PORT),
    "webServicePort": str(WEB_PORT),
    "bookkeeperClientTimeoutInSeconds": str(BOOKIE_TIMEOUT_SECONDS),
    "keepAliveIntervalSeconds": "5",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "managedLedgerMaxEntriesPerLedger": "400",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "brokerDeduplicationEntriesInterval": "100",
}


def bookie_keys(address: str, zookeeper: str, folder: Path) -> dict[str, str]:
    """Returns the keys of bk_server.conf of the bookie with an IP address; the folder is for its data."""
    return BOOKIE_KEYS | {
        "metadataServiceUri": f"zk+hierarchical://{zookeeper}:{ZOOKEEPER_PORT}/ledgers",
        "advertisedAddress": address,
        "journalDirectories": str(folder / "journal"),
        "ledgerDirectories": str(folder / "ledgers"),
    }


def broker_keys(address: str, zookeeper: str, quorums: tuple[int, int, int]) -> dict[str, str]:
    """Returns the keys of broker.conf of the broker with an IP address; `quorums` are E, Qw and Qa."""
    ensemble, write, ack = quorums
    url = f"zk:{zookeeper}:{ZOOKEEPER_PORT}"
    return BROKER_KEYS | {
        "metadataStoreUrl": url,
        "configurationMetadataStoreUrl": url,
        "bindAddress": "0.0.0.0",
        "advertisedAddress": address,
        "managedLedgerDefaultEnsembleSize": str(ensemble),
        "managedLedgerDefaultWriteQuorum": str(write),
        "managedLedgerDefaultAckQuorum": str(ack),
    }


class Keeper:
    """A supervisor of one process: whatever ends it, it is started again until it serves. Only a process that somebody
    holds down stays away."""

    def __init__(self, process: ClusterProcess) -> None:
        self.process = process
        self.ends: list[tuple[float, int]] = []
        """When the process ended by itself (monotonic seconds), and its exit code."""
        self._lock = threading.Lock()
        self._held_down = threading.Event()
        self._serves = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeper of {process.name}", daemon=True)

    @property
    def name(self) -> str:
        return self.process.name

    def start(self) -> None:
        self._thread.start()

    def is_serving(self) -> bool:
        return self._serves.is_set() and self.process.is_running

    def kill(self) -> None:
        """Kills the process, and keeps it away until `release`."""
        with self._lock:
            self._held_down.set()
            self._serves.clear()
            self.process.kill()

    def release(self) -> None:
        self._held_down.clear()

    def freeze(self) -> None:
        """Stops the process's execution. Has no effect on one that has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.pause()

    def thaw(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.resume()

    def close(self) -> None:
        """Ends the keeper and kills the process: what a stop in order does is tested elsewhere."""
        self._closing.set()
        self._held_down.set()
        if self._thread.is_alive():
            self._thread.join(STOPPED_SECONDS)
        self.process.kill()

    def _keep(self) -> None:
        while not self._closing.is_set():
            if self.process.is_running or self._held_down.is_set():
                self._closing.wait(POLL_SECONDS)
                continue
            if self._serves.is_set():
                self._serves.clear()
                self.ends.append((time.monotonic(), self.process.process.wait()))
                self._closing.wait(AGAIN_AFTER_SECONDS)
            self._start()

    def _start(self) -> None:
        """Starts the process. One that cannot start, because ZooKeeper is away for example, is started again later."""
        with self._lock:
            if self._held_down.is_set():
                return
            self.process.spawn()
        if self.process.wait_ready(self.process.process, time.monotonic() + START_SECONDS):
            self._serves.set()
        else:
            self.process.kill()
            self._closing.wait(AGAIN_AFTER_SECONDS)


def wait_serving(keepers: Mapping[str, Keeper], seconds: float) -> None:
    """Waits until every process serves. Raises TimeoutError, which names the others."""

    def others() -> list[str]:
        return [each.name for each in keepers.values() if not each.is_serving()]

    try:
        wait_until(lambda: not others(), "all processes serve", seconds)
    except TimeoutError as error:
        raise TimeoutError(f"{error}, but {others()} do not") from None
