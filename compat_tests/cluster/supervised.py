"""`magnetar cluster` as tests and measurements use it: who owns a topic, which process is which, and what a publisher
sees while something happens."""

import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pulsar

from compat_tests.harness import WAIT_SECONDS, Server, wait_until
from compat_tests.products import MagnetarCluster
from compat_tests.redirects import FollowRedirects

TIMEOUT_SECONDS = 60


class SupervisedCluster(Server):
    """One `magnetar cluster`. `kill` and `stop` end the supervisor, and with it all of the cluster."""

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 2,
        bookies: int = 3,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, product=MagnetarCluster(brokers, bookies), settings=settings, environment=environment)

    @property
    def processes(self) -> dict[str, Any]:
        """What runs now: the supervisor's own document, in which a process that is down has the pid None."""
        found: dict[str, Any] = json.loads((self.data_dir / "processes.json").read_text())
        return found

    @property
    def brokers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.processes["brokers"]
        return found

    @property
    def service_url(self) -> str:
        """The URL that names all brokers."""
        return "pulsar://" + ",".join(each["brokerServiceUrl"].removeprefix("pulsar://") for each in self.brokers)

    def pids(self) -> list[int]:
        """Returns the pids of all processes of the cluster, the supervisor's among them."""
        found = self.processes
        members = [*found["brokers"], *found["bookies"], found["metadata"]]
        return [found["pid"], *(each["pid"] for each in members if each["pid"])]

    def owner(self, topic: str, asked: int = 0) -> int:
        """Returns the number of the broker that owns the topic, as the broker `asked` says."""
        url = f"{self.brokers[asked]['webServiceUrl']}/lookup/v2/topic/{topic.replace('://', '/')}"
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            found = json.load(answer)["brokerUrl"]
        return [each["brokerServiceUrl"] for each in self.brokers].index(found)

    def kill_child(self, kind: str, number: int = 0) -> int:
        """Sends SIGKILL to a child and returns its pid."""
        found = self.processes[kind]
        pid: int = (found if kind == "metadata" else found[number])["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_return(self, kind: str, former: int, number: int = 0) -> None:
        """Waits until a child is ready again whose process was `former`."""

        def is_back() -> bool:
            found = self.processes[kind]
            return (found if kind == "metadata" else found[number])["pid"] not in (None, former)

        wait_until(is_back, f"the return of {kind} {number}")

    def call(self, broker: int, method: str, path: str, body: Any = None) -> str:
        """Makes an admin call at a broker, or where that one sends it, and returns the answer's text. Raises
        HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.brokers[broker]['webServiceUrl']}/admin/v2/{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(FollowRedirects)
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            text: str = answer.read().decode()
            return text


class SteadyPublisher:
    """Publishes unbatched messages at a steady rate with the official client, from a thread of its own, and keeps the
    time of each receipt. Leaving it as a context manager ends it; then `failures` and `bodies` are whole."""

    def __init__(self, url: str, topics: Sequence[str], *, rate: int = 100, timeout_seconds: int = 60) -> None:
        self._client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
        self._producers = [
            self._client.create_producer(
                each, batching_enabled=False, send_timeout_millis=timeout_seconds * 1000, max_pending_messages=100_000
            )
            for each in topics
        ]
        self._pause = 1 / rate
        self._outcome_seconds = timeout_seconds + WAIT_SECONDS
        """By then a message has its receipt, or the client has given it up."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._lock = threading.Lock()
        self.receipts: list[float] = []
        self.bodies: list[bytes] = []
        """The messages that were acknowledged, in the order of the receipts."""
        self.last_receipts = [0.0] * len(topics)
        """When each topic had its last receipt."""
        self.failures: list[str] = []
        self.sent = 0

    def __enter__(self) -> "SteadyPublisher":
        self._thread.start()
        wait_until(lambda: len(self.receipts) >= 20, "the first receipts")
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()
        self._client.close()

    def goes_on(self, receipts: int = 100, timeout_seconds: float = WAIT_SECONDS) -> None:
        """Waits for so many further receipts. Raises TimeoutError."""
        wanted = len(self.receipts) + receipts
        wait_until(lambda: len(self.receipts) >= wanted, "further receipts", timeout_seconds)

    def gap_since(self, moment: float) -> float:
        """Returns the longest time between two receipts from the last one before the moment on."""
        with self._lock:
            times = list(self.receipts)
        before = [each for each in times if each <= moment][-1:]
        since = [*before, *(each for each in times if each > moment)]
        return max((later - earlier for earlier, later in pairwise(since)), default=0.0)

    def pause(self) -> None:
        """Ends the steady rate, and waits for the receipts that are on their way."""
        self._ended.set()
        self._thread.join()
        wait_until(
            lambda: len(self.receipts) + len(self.failures) == self.sent,
            "a receipt for each message",
            self._outcome_seconds,
        )

    def send_to_each(self) -> None:
        """Sends one message to each topic, after `pause`."""
        for index in range(len(self._producers)):
            self._send(index)

    def _send(self, index: int) -> None:
        body = b"%d" % self.sent
        self.sent += 1
        self._producers[index].send_async(body, partial(self._receipt, index, body))

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            self._send(self.sent % len(self._producers))
            due += self._pause
            self._ended.wait(max(0.0, due - time.monotonic()))

    def _receipt(self, index: int, body: bytes, result: Any, _: object) -> None:
        with self._lock:
            if result == pulsar.Result.Ok:
                self.receipts.append(time.monotonic())
                self.last_receipts[index] = self.receipts[-1]
                self.bodies.append(body)
            else:
                self.failures.append(str(result))
