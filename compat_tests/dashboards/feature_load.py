"""A load of the official client that touches every feature that has metrics."""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pulsar
from pulsar.schema import JsonSchema, Record, String

NAMESPACE = "public/default"
MESSAGES = 20
TIMEOUT_MS = 30_000
CALL_SECONDS = 30
SIZES = (10, 300, 800, 1_500, 3_000, 10_000, 50_000, 200_000, 2_000_000)
"""One size for each bucket of entry sizes."""


class Person(Record):  # type: ignore[misc]
    name = String()


def call(web_url: str, method: str, path: str, body: Any = None) -> None:
    """Calls the admin API. Raises HTTPError for a refusal."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{web_url}/admin/v2/{path}", data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
        answer.read()


def topic(name: str, domain: str = "persistent") -> str:
    return f"{domain}://{NAMESPACE}/{name}"


class FeatureLoad:
    """The clients of the load. They stay connected until `close`, because some metrics exist only with clients."""

    def __init__(self, broker_url: str, web_url: str) -> None:
        self._web_url = web_url
        self.client = pulsar.Client(broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))

    def close(self) -> None:
        self.client.close()

    def run(self) -> None:
        """Does everything once."""
        for step in (
            self._all_sizes,
            self._all_subscription_types,
            self._redelivery,
            self._delays,
            self._schemas,
            self._compaction,
            self._eviction_for_a_quota,
            self._catching_up,
            self._non_persistent,
        ):
            step()
        call(self._web_url, "GET", "brokers/health")

    def _publish(self, name: str, count: int = MESSAGES, **options: Any) -> None:
        producer = self.client.create_producer(name)
        for number in range(count):
            producer.send(b"%d" % number, **options)

    def _all_sizes(self) -> None:
        producer = self.client.create_producer(topic("sizes"))
        for size in SIZES:
            producer.send(bytes(size))

    def _all_subscription_types(self) -> None:
        for kind in (
            pulsar.ConsumerType.Exclusive,
            pulsar.ConsumerType.Shared,
            pulsar.ConsumerType.Failover,
            pulsar.ConsumerType.KeyShared,
        ):
            name = topic(f"type-{kind.name}")
            consumer = self.client.subscribe(name, "s", consumer_type=kind, consumer_name="c")
            self._publish(name, partition_key="k")
            for _ in range(MESSAGES - 5):
                consumer.acknowledge(consumer.receive(TIMEOUT_MS))

    def _redelivery(self) -> None:
        name = topic("redelivered")
        consumer = self.client.subscribe(
            name, "s", consumer_type=pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
        )
        self._publish(name, 5)
        for _ in range(5):
            consumer.negative_acknowledge(consumer.receive(TIMEOUT_MS))
        for _ in range(5):
            consumer.receive(TIMEOUT_MS)

    def _delays(self) -> None:
        name = topic("delayed")
        self.client.subscribe(name, "s", consumer_type=pulsar.ConsumerType.Shared)
        self._publish(name, 5, deliver_at=int(time.time() * 1000) + 3_600_000)

    def _schemas(self) -> None:
        producer = self.client.create_producer(topic("with-schema"), schema=JsonSchema(Person))
        producer.send(Person(name="n"))

    def _compaction(self) -> None:
        name = topic("compacted")
        self._publish(name, partition_key="k")
        call(self._web_url, "PUT", f"persistent/{NAMESPACE}/compacted/compaction")

    def _eviction_for_a_quota(self) -> None:
        """Lets a backlog grow over a quota of a namespace of its own."""
        call(self._web_url, "PUT", "namespaces/public/bounded", {})
        quota = {"limitSize": 1_000, "limit": 1_000, "policy": "consumer_backlog_eviction"}
        path = "namespaces/public/bounded/backlogQuota?backlogQuotaType=destination_storage"
        call(self._web_url, "POST", path, quota)
        name = "persistent://public/bounded/evicted"
        self.client.subscribe(name, "s").close()
        producer = self.client.create_producer(name)
        for _ in range(10):
            producer.send(bytes(1_000))

    def _catching_up(self) -> None:
        """Reads old messages, which no cache holds. A subscription keeps them."""
        name = topic("old")
        self.client.subscribe(name, "keeping").close()
        self._publish(name)
        call(self._web_url, "PUT", f"persistent/{NAMESPACE}/old/unload")
        reader = self.client.create_reader(name, pulsar.MessageId.earliest)
        for _ in range(MESSAGES):
            reader.read_next(TIMEOUT_MS)

    def _non_persistent(self) -> None:
        name = topic("volatile", "non-persistent")
        self.client.subscribe(name, "s")
        self._publish(name)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Waits for a condition that a running server fulfils in a while. Raises AssertionError after `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
