"""Features that must survive a move of their topic to a broker of another make, by unload or by SIGKILL.

A feature is a generator function. It sets its topic up at the first broker and yields; the topic moves; it then checks
the topic at the second broker. All features of a test file share each move, because a broker that was killed takes
seconds to be given up, and Apache's half a minute to start again.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pulsar

from compat_tests.cluster import admin
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.moves import kill, unload_to
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until

NAMESPACE = "public/default"
OURS, APACHES = 0, 1
RECEIVE_MS = 60_000
SILENCE_MS = 2_000
SETTLED_LOOKS = 3

SETTINGS = {
    "metadataStoreSessionTimeoutMillis": "10000",
    "loadBalancerSheddingEnabled": "false",
    # The machine that runs a test is often busy with other work: nobody shall be called overloaded for that.
    "loadBalancerBrokerOverloadedThresholdPercentage": "1000",
    # Every acknowledgement is stored at once, so that a kill shows what is stored and not how often.
    "managedLedgerDefaultMarkDeleteRateLimit": "0",
}


class Move(NamedTuple):
    """A move from one broker of the cluster to another one."""

    source: int
    target: int
    by_kill: bool

    def __str__(self) -> str:
        names = {OURS: "ours", APACHES: "apaches"}
        return f"{'kill' if self.by_kill else 'unload'}-{names[self.source]}-to-{names[self.target]}"


MOVES = [Move(first, 1 - first, by_kill) for by_kill in (False, True) for first in (OURS, APACHES)]
"""Both ways and both directions. The kill of Apache's broker is the last, so that nobody has to wait for its start."""


class Scene:
    """What a feature works with: its topic, `tenant/namespace/name`, the two brokers, and clients. `client` finds
    either broker, so what it attaches follows the move; `first` and `second` ask one broker only."""

    def __init__(self, cluster: Cluster, move: Move, name: str, log: Path) -> None:
        self.source, self.target = cluster.brokers[move.source], cluster.brokers[move.target]
        self.topic = f"{NAMESPACE}/{name}-{move}"
        self._logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(log))
        self.client = self._client(cluster.service_url)
        self.first = self._client(self.source.broker_url)
        self.second = self._client(self.target.broker_url)

    def _client(self, url: str) -> pulsar.Client:
        return pulsar.Client(url, logger=self._logger, operation_timeout_seconds=60)

    def call(self, broker: BrokerSeat, path: str, method: str = "GET", body: Any = None) -> Any:
        """Makes an admin call about the topic."""
        return admin.call(broker, f"/admin/v2/persistent/{self.topic}/{path}".rstrip("/"), method, body)

    def settled(self, subscription: str, condition: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until the first broker's internal stats of the subscription's cursor meet the condition, and until
        the cursor's ledger does not grow any more: what is acknowledged is then stored."""
        seen: list[object] = []

        def stored() -> bool:
            cursor = self.call(self.source, "internalStats")["cursors"][subscription]
            seen.append((cursor["cursorLedger"], cursor["cursorLedgerLastEntry"]))
            calm = len(seen) > SETTLED_LOOKS and len(set(seen[-SETTLED_LOOKS:])) == 1
            return condition(cursor) and cursor["cursorLedgerLastEntry"] >= 0 and calm

        wait_until(stored, f"the acknowledgements of {subscription} are stored", 30)

    def close(self) -> None:
        for each in (self.client, self.first, self.second):
            with contextlib.suppress(pulsar.PulsarException):
                each.close()


Feature = Callable[[Scene], Iterator[None]]


class Moved:
    """Features whose topics have moved."""

    def __init__(self, cluster: Cluster, move: Move, features: Sequence[Feature]) -> None:
        log = cluster.folder / "client.log"
        self._scenes = [Scene(cluster, move, each.__name__.replace("_", "-"), log) for each in features]
        self._running = {each.__name__: each(scene) for each, scene in zip(features, self._scenes, strict=True)}
        self._failed: dict[str, Exception] = {}
        for scene, (name, feature) in zip(self._scenes, self._running.items(), strict=True):
            try:
                unload_to(scene.topic, scene.source)
                next(feature)
            except Exception as error:
                self._failed[name] = error
        source, target = cluster.brokers[move.source], cluster.brokers[move.target]
        if move.by_kill:
            kill(source, target, cluster.name)
        else:
            for scene in self._scenes:
                unload_to(scene.topic, target)

    def check(self, feature: Feature) -> None:
        """Runs the rest of a feature. Raises what its first part raised."""
        if feature.__name__ in self._failed:
            raise self._failed[feature.__name__]
        for _ in self._running[feature.__name__]:
            raise AssertionError("a feature yields once")

    def close(self) -> None:
        for each in self._scenes:
            each.close()


@contextlib.contextmanager
def mixed_cluster(folder: Path) -> Iterator[Cluster]:
    """Yields a cluster of one broker of each make, at the indexes `OURS` and `APACHES`."""
    made = Cluster(folder, bookies=1, brokers=1, settings=SETTINGS)
    made.add_broker(ApacheBroker)
    with made:
        yield made


@contextlib.contextmanager
def moved_by(cluster: Cluster, move: Move, features: Sequence[Feature]) -> Iterator[Moved]:
    """Starts the broker that an earlier move killed, sets the features up, and moves their topics."""
    for each in cluster.brokers:
        if not each.is_running:
            each.start()
    wait_until(
        lambda: all(len(admin.registered(each, cluster.name)) == len(cluster.brokers) for each in cluster.brokers),
        "all brokers are registered",
        60,
    )
    moved = Moved(cluster, move, features)
    try:
        yield moved
    finally:
        moved.close()


def publish(
    client: pulsar.Client, topic: str, bodies: Sequence[bytes], key: Callable[[bytes], str] = bytes.decode
) -> None:
    """Publishes messages one by one, each an entry of its own."""
    producer = client.create_producer(topic, batching_enabled=False)
    for body in bodies:
        producer.send(body, partition_key=key(body))
    producer.close()


def publish_batch(
    client: pulsar.Client, topic: str, bodies: Sequence[bytes], key: Callable[[bytes], str] = bytes.decode
) -> None:
    """Publishes messages as one batch."""
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=len(bodies), batching_max_publish_delay_ms=60_000
    )
    for body in bodies:
        producer.send_async(body, None, partition_key=key(body))
    producer.flush()
    producer.close()


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(RECEIVE_MS) for _ in range(count)]


def silent(consumer: pulsar.Consumer) -> None:
    """Raises AssertionError when a message comes."""
    try:
        message = consumer.receive(SILENCE_MS)
    except pulsar.Timeout:
        return
    raise AssertionError(f"nothing was expected, but {message.data()!r} came")


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]
