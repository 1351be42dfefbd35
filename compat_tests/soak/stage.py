"""What all parts of a soak share: the server, its outages, clients, records, counts, and the end of the load."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pulsar

from compat_tests.harness import Server
from compat_tests.python.receipts import Place, ProducerRecord, Stored, parse
from compat_tests.python.rest import Admin
from compat_tests.soak.claims import Outage, SubscriptionRecord
from compat_tests.soak.topics import SubscriptionSpec, TopicSpec

JOIN_TIMEOUT_SECONDS = 90.0
RECEIVE_MS = 200
RETRY_SECONDS = 0.5
STUCK_MS = 60_000
FLEETING_KEY = "fleeting"
"""The key of messages that compaction takes out; no record lists them."""


@dataclass(slots=True)
class TopicRecord:
    """What was sent to a topic, and the topic's own outages."""

    spec: TopicSpec
    producers: dict[str, ProducerRecord] = field(default_factory=dict)
    due: dict[tuple[str, int], float] = field(default_factory=dict)
    """When each delayed message is due: (producer, sequence) → seconds since the epoch."""
    too_early: int = 0
    unloads: list[Outage] = field(default_factory=list)
    subscriptions: dict[tuple[str, int], SubscriptionRecord] = field(default_factory=dict)
    """The records by subscription and partition (-1 for a topic that is not partitioned)."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def subscription(self, spec: SubscriptionSpec, partition: int) -> SubscriptionRecord:
        name = f"{self.spec.name}{'' if partition < 0 else f'-{partition}'} {spec.name}"
        return self.subscriptions.setdefault((spec.name, partition), SubscriptionRecord(name, spec.order))


class Stage:
    """The shared state, thread-safe where several threads use it. `minutes` is how long the load lasts."""

    def __init__(self, server: Server, minutes: float, seed: int) -> None:
        self.server = server
        self.admin = Admin(server)
        self.seed = seed
        self.seconds = minutes * 60
        self.began = time.monotonic()
        self.ended = threading.Event()
        self.is_up = threading.Event()
        self.is_up.set()
        self.kills: list[Outage] = []
        self.more_rewinds = 0
        """How often a producer may begin again besides once in each outage."""
        self.counts: Counter[str] = Counter()
        self.complaints: list[str] = []
        self.chunking = threading.Lock()
        """Held while a chunked message is on the way, so that no kill comes in between: the C++ client gives up a
        message when one of its chunks is in the log twice."""
        self.quiet: dict[str, bool] = {}
        """By consumer thread: has its consumer seen an empty queue since the server was killed?"""
        self._threads: list[threading.Thread] = []
        self._clients: list[pulsar.Client] = []

    def random_for(self, what: str) -> random.Random:
        return random.Random(f"{self.seed} {what}")

    def share_over(self) -> float:
        return (time.monotonic() - self.began) / self.seconds

    def complain(self, text: str) -> None:
        self.complaints.append(text)
        print(f"  BROKEN: {text}", flush=True)

    def new_client(self, url: str | None = None, timeout_seconds: int = 30) -> pulsar.Client:
        """Returns a client of the server, or of another URL."""
        log = str(self.server.log_path.with_name("client.log"))
        client = pulsar.Client(
            url or self.server.broker_url,
            operation_timeout_seconds=timeout_seconds,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, log),
        )
        self._clients.append(client)
        return client

    def run(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        """Runs the target on a thread of its own; an exception becomes a complaint."""

        def guarded() -> None:
            try:
                target(*arguments)
            except Exception as error:
                self.complain(f"{name}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Ends the load and waits for its threads."""
        self.ended.set()
        deadline = time.monotonic() + JOIN_TIMEOUT_SECONDS
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))
            if thread.is_alive():
                self.complain(f"{thread.name} hangs")

    def close_client(self, client: pulsar.Client) -> None:
        """Closes one client before the end."""
        self._clients.remove(client)
        with contextlib.suppress(pulsar.PulsarException):
            client.close()

    def close_clients(self) -> None:
        for client in self._clients:
            with contextlib.suppress(pulsar.PulsarException):
                client.close()
        self._clients.clear()

    def pause(self, seconds: float) -> None:
        """Waits this long, or until the load ends."""
        self.ended.wait(seconds)

    def insist(self, call: Callable[[], Any]) -> Any:
        """Repeats the call for as long as the server may be away. Returns None when the load ended before the call
        succeeded."""
        while not self.ended.is_set():
            try:
                return call()
            except pulsar.PulsarException as error:
                self.counts["refused calls"] += 1
                if isinstance(error, pulsar.IncompatibleSchema | pulsar.NotAllowedError):
                    raise
                self.pause(RETRY_SECONDS)
        return None


def place_of(message_id: Any) -> Place:
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()


def stored_in(message: Any, is_json: bool = False) -> Stored | None:
    """Parses a message; returns None for one that no record lists. Raises ValueError when it is damaged."""
    if message.partition_key().startswith(FLEETING_KEY):
        return None
    body = bytes.fromhex(message.value().body) if is_json else message.data()
    return parse(body, place_of(message.message_id()))


def received(source: Any, timeout_ms: int = RECEIVE_MS) -> Iterator[Any]:
    """Yields the next message of a consumer or reader, or nothing when none comes in time."""
    take = source.receive if hasattr(source, "receive") else source.read_next
    try:
        yield take(timeout_ms)
    except pulsar.Timeout:
        return


def rest_of(reader: Any) -> Iterator[Any]:
    """Yields every message up to the present end of the topic. Raises TimeoutError when the broker fails to deliver
    one."""
    count = 0
    while reader.has_message_available():
        message = next(received(reader, STUCK_MS), None)
        if message is None:
            raise TimeoutError(f"a reader of {reader.topic()} is stuck after {count} messages")
        count += 1
        yield message
