"""The servers of the bank, which are killed and started again on the same ports: a standalone server, or a cluster of
three brokers."""

import json
import random
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat_tests.bank.clients import TxnId
from compat_tests.cluster.cluster import Cluster
from compat_tests.harness import Server, wait_until

SETTINGS = {
    "transactionCoordinatorEnabled": "true",
    # After a kill clients send again what was not answered, also in a transaction that goes on.
    "brokerDeduplicationEnabled": "true",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    # The observer's readers must find what is spent, too.
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
    # So that recovery begins with a snapshot that is a few transactions old.
    "transactionBufferSnapshotMinTimeInMillis": "1000",
    "transactionPendingAckLogIndexMinLag": "20",
}
BOOKIES = 2
BROKERS = 3
QUIET_SECONDS = 120.0
STATS_SECONDS = 5.0
STATS = "/admin/v3/transactions/coordinatorStats"


class Coordinators:
    """What all coordinators had at one moment."""

    def __init__(self, stats: Mapping[str, Mapping[str, Any]]) -> None:
        self._stats = stats

    @property
    def open(self) -> int:
        return sum(each["ongoingTxnSize"] for each in self._stats.values())

    def has_ended(self, txn_id: TxnId) -> bool:
        """Returns whether a transaction had ended everywhere. Its begin must have been answered before that moment."""
        most, least = txn_id
        stats = self._stats.get(str(most))
        if stats is None:
            return False
        return bool(least <= stats["leastSigBits" if stats["ongoingTxnSize"] == 0 else "lowWaterMark"])


class Site(ABC):
    """Use it as a context manager. Leaving it raises ServerFailedError if a server has logged an error."""

    service_url: str
    """The address for clients, once the site was entered."""

    @property
    @abstractmethod
    def web_url(self) -> str: ...

    @abstractmethod
    def strike(self, choices: random.Random) -> str:
        """Kills a server by SIGKILL and starts it again. Returns when it serves, and says what was done."""

    @abstractmethod
    def close(self) -> None:
        """Stops everything. Raises ServerFailedError if a server has logged an error."""

    def await_quiet(self) -> None:
        """Waits until no coordinator has a transaction any more."""
        wait_until(lambda: self.coordinators().open == 0, "all transactions have ended", QUIET_SECONDS)

    def coordinators(self) -> "Coordinators":
        """Asks what the coordinators have. Raises OSError while they cannot be asked."""
        with urllib.request.urlopen(f"{self.web_url}{STATS}", timeout=STATS_SECONDS) as answer:
            return Coordinators(json.load(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Standalone(Site):
    """A standalone server. Some kills hit it a second time, while it starts."""

    def __init__(self, folder: Path) -> None:
        self._server = Server(folder, settings=SETTINGS)
        self._server.start()
        self.service_url = self._server.broker_url

    @property
    def web_url(self) -> str:
        return self._server.web_url

    def strike(self, choices: random.Random) -> str:
        self._server.kill()
        again = choices.random() < 0.25
        if again:
            self._server.spawn()
            time.sleep(choices.uniform(0.1, 1.0))
            self._server.kill()
        seconds = self._server.start()
        return f"killed{', and again while it started' if again else ''}; started in {seconds:.1f} s"

    def close(self) -> None:
        self._server.close()
        self._server.assert_no_errors()


class ThreeBrokers(Site):
    """Three brokers, of which one is killed at a time. It comes back before or after the others have its topics."""

    def __init__(self, folder: Path) -> None:
        self._cluster = Cluster(folder, bookies=BOOKIES, brokers=BROKERS, settings=SETTINGS)
        self._cluster.start()
        self.service_url = self._cluster.service_url

    @property
    def web_url(self) -> str:
        return self._cluster.brokers[0].web_url

    def strike(self, choices: random.Random) -> str:
        broker = choices.choice(self._cluster.brokers)
        broker.kill()
        away = choices.choice((0.0, choices.uniform(0, 3), choices.uniform(4, 8)))
        time.sleep(away)
        broker.start()
        return f"{broker.name} killed, started {away:.1f} s later"

    def close(self) -> None:
        self._cluster.close()
        self._cluster.assert_no_errors()
