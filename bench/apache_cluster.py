"""Apache's cluster of the same shape as ours for the bench: two brokers, three bookies and ZooKeeper, each in a JVM."""

import json
import signal
import time
import urllib.request
from pathlib import Path

from bench.our_cluster import SHAPE
from compat_tests.cluster.apache_seats import ApacheBookie, ApacheBroker
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.redirects import FollowRedirects

SETTINGS = {**SHAPE, "metadataStoreSessionTimeoutMillis": "30000"}
CALL_SECONDS = 60


class RoomyBroker(ApacheBroker):
    """A broker with memory enough for publishing as fast as it goes; with less it resets its clients' connections."""

    heap_mb = 1536
    direct_mb = 2048


class RoomyBookie(ApacheBookie):
    """A bookie with the caches that its defaults would take of this memory."""

    heap_mb = 512
    direct_mb = 1024
    write_cache_mb = 256


class ApacheCluster:
    """The cluster as a context manager's content: `start` is called once, then `close` once."""

    def __init__(self, folder: Path, *, brokers: int, bookies: int) -> None:
        seats = Seats(bookie=RoomyBookie, broker=RoomyBroker)
        self._cluster = Cluster(folder, brokers=brokers, bookies=bookies, settings=SETTINGS, seats=seats)

    def start(self) -> float:
        """Starts all and returns the seconds that this took."""
        began = time.monotonic()
        self._cluster.start()
        return time.monotonic() - began

    def close(self) -> None:
        self._cluster.close()

    @property
    def service_url(self) -> str:
        return self._cluster.service_url

    @property
    def broker_port(self) -> int:
        return int(self._cluster.brokers[0].broker_url.rpartition(":")[2])

    def pids(self) -> list[int]:
        return [each.pid for each in self._cluster.processes]

    def owner(self, topic: str) -> int:
        """Returns the number of the broker that owns the topic."""
        url = f"{self._cluster.brokers[0].web_url}/lookup/v2/topic/{topic.replace('://', '/')}"
        with urllib.request.urlopen(url, timeout=CALL_SECONDS) as answer:
            found = json.load(answer)["brokerUrl"]
        return [each.broker_url for each in self._cluster.brokers].index(found)

    def end(self, broker: int, number: signal.Signals) -> None:
        """Ends a broker and starts it again."""
        ended = self._cluster.brokers[broker]
        ended.process.send_signal(number)
        ended.wait()
        ended.start()

    def call(self, method: str, path: str, body: object = None) -> None:
        """Makes an admin call and follows its redirects. Raises HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self._cluster.brokers[0].web_url}/admin/v2/{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        urllib.request.build_opener(FollowRedirects).open(request, timeout=CALL_SECONDS).close()

    def freeze(self, seconds: float) -> None:
        """Stops the metadata for so long, which then goes on."""
        self._cluster.zookeeper.pause()
        try:
            time.sleep(seconds)
        finally:
            self._cluster.zookeeper.resume()

    def assert_no_errors(self) -> None:
        """Apache logs ERROR lines at a healthy start, so nothing is looked for."""
