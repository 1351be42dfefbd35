"""`magnetar cluster` for the bench, with the same calls as Apache's cluster."""

import os
import signal
import time
from pathlib import Path

from compat_tests.cluster.supervised import SupervisedCluster
from compat_tests.harness import UNWATCHED

SHAPE = {
    "managedLedgerDefaultEnsembleSize": "3",
    "managedLedgerDefaultWriteQuorum": "3",
    "managedLedgerDefaultAckQuorum": "2",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}
"""Three copies of an entry, E3/Qw3/Qa2. Bundles move only when the bench moves them: under its load the leader would
split and shed them, and the driver, unlike a client, does not look for the next owner."""


class OurCluster:
    """The cluster as a context manager's content: `start` is called once, then `close` once."""

    def __init__(self, folder: Path, *, brokers: int, bookies: int) -> None:
        self._cluster = SupervisedCluster(
            folder, brokers=brokers, bookies=bookies, settings=SHAPE, environment=UNWATCHED
        )

    def start(self) -> float:
        """Starts all and returns the seconds that this took."""
        return self._cluster.start()

    def close(self) -> None:
        self._cluster.close()

    @property
    def service_url(self) -> str:
        return self._cluster.service_url

    @property
    def broker_port(self) -> int:
        return self._cluster.broker_port

    def pids(self) -> list[int]:
        return self._cluster.pids()

    def port_of(self, broker: int) -> int:
        """Returns the port for clients of the broker with this number."""
        url: str = self._cluster.brokers[broker]["brokerServiceUrl"]
        return int(url.rpartition(":")[2])

    def named_pids(self) -> dict[str, int]:
        """Returns the pid of each process: "supervisor", "metadata", "broker-0", "bookie-0" and so on."""
        found = self._cluster.processes
        pids: dict[str, int] = {"supervisor": found["pid"], "metadata": found["metadata"]["pid"]}
        for kind in ("broker", "bookie"):
            pids |= {f"{kind}-{index}": each["pid"] for index, each in enumerate(found[f"{kind}s"])}
        return pids

    def owner(self, topic: str) -> int:
        """Returns the number of the broker that owns the topic."""
        return self._cluster.owner(topic)

    def end(self, broker: int, number: signal.Signals) -> None:
        """Ends a broker, and returns when the supervisor has started it again."""
        former = self._cluster.brokers[broker]["pid"]
        os.kill(former, number)
        self._cluster.await_return("brokers", former, broker)

    def call(self, method: str, path: str, body: object = None) -> None:
        """Makes an admin call and follows its redirects. Raises HTTPError."""
        self._cluster.call(0, method, path, body)

    def freeze(self, seconds: float) -> None:
        """Stops the metadata for so long, which then goes on."""
        pid = self._cluster.processes["metadata"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def assert_no_errors(self) -> None:
        self._cluster.assert_no_errors()
