"""Loads of the broker's features with the official client, as a process of its own; prints one JSON object.

Rates are partly the client's. The server's CPU time is not, so that figure counts.
"""

import argparse
import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import pulsar

from bench.driver import Outcome, Stopwatch
from bench.process_stats import memory_mb

RECEIVE_TIMEOUT_MS = 30_000
ACK_EVERY = 200
KEYS = 1000
CONSUMERS = 10
BODY = bytes(1024)


def fan_out(client: pulsar.Client, at: argparse.Namespace) -> Outcome:
    """Publishes to one topic with ten subscriptions, each of which has one consumer."""
    consumers = [client.subscribe(at.topic, f"fan-{number}") for number in range(CONSUMERS)]
    producer = client.create_producer(at.topic, batching_enabled=True, block_if_queue_full=True)

    def consume(consumer: pulsar.Consumer) -> None:
        for index in range(1, at.messages + 1):
            message = consumer.receive(RECEIVE_TIMEOUT_MS)
            if index % ACK_EVERY == 0:
                consumer.acknowledge_cumulative(message)

    return _consumed(at, producer, [partial(consume, each) for each in consumers], at.messages * CONSUMERS)


def shared(client: pulsar.Client, at: argparse.Namespace, kind: pulsar.ConsumerType) -> Outcome:
    """Publishes unbatched messages to one subscription with ten consumers; every message is acknowledged by itself."""
    consumers = [client.subscribe(at.topic, "shared", consumer_type=kind) for _ in range(CONSUMERS)]
    producer = client.create_producer(at.topic, batching_enabled=False, block_if_queue_full=True)
    left = threading.Semaphore(at.messages)
    finished = threading.Event()

    def consume(consumer: pulsar.Consumer) -> None:
        while not finished.is_set():
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            left.acquire()
            if not left._value:
                finished.set()

    return _consumed(at, producer, [partial(consume, each) for each in consumers], at.messages)


def _consumed(
    at: argparse.Namespace, producer: pulsar.Producer, consumers: list[Callable[[], None]], deliveries: int
) -> Outcome:
    watch = Stopwatch(at.server_pid)
    threads = [threading.Thread(target=consume, daemon=True) for consume in consumers]
    for thread in threads:
        thread.start()
    for number in range(at.messages):
        producer.send_async(BODY, _ignored, partition_key=str(number % KEYS))
    producer.flush()
    for thread in threads:
        thread.join(120)
    return watch.outcome(deliveries)


def _ignored(result: pulsar.Result, _: object) -> None:
    assert result == pulsar.Result.Ok, result


def topics(client: pulsar.Client, at: argparse.Namespace) -> dict[str, float]:
    """Makes a producer and a subscription on each of many topics. Returns the seconds to create the producers, and the
    memory for each topic."""
    before = memory_mb(at.server_pid)
    began = time.perf_counter()
    for number in range(at.messages):
        client.create_producer(f"{at.topic}-{number}")
    seconds = time.perf_counter() - began
    for number in range(at.messages):
        client.subscribe(f"{at.topic}-{number}", "one")
    return {"seconds": seconds, "kilobytes": (memory_mb(at.server_pid) - before) * 1000 / at.messages}


def holes(client: pulsar.Client, at: argparse.Namespace) -> dict[str, float]:
    """Acknowledges every second message, gives the server `settle_seconds` to put the holes on disk, and kills it.
    Returns the memory that the holes take."""
    consumer = client.subscribe(at.topic, "holes", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=5000)
    producer = client.create_producer(at.topic, batching_enabled=False, block_if_queue_full=True)
    for _ in range(at.messages):
        producer.send_async(b"0123456789", _ignored)
    producer.flush()
    before = memory_mb(at.server_pid)
    for number in range(at.messages):
        message = consumer.receive(RECEIVE_TIMEOUT_MS)
        if number % 2 == 0:
            consumer.acknowledge(message)
    time.sleep(at.settle_seconds)
    grown = memory_mb(at.server_pid) - before
    os.kill(at.server_pid, signal.SIGKILL)
    return {"megabytes": grown}


def left_over(client: pulsar.Client, at: argparse.Namespace) -> dict[str, float]:
    """Returns how many messages come (again) until no more does."""
    consumer = client.subscribe(at.topic, "holes", consumer_type=pulsar.ConsumerType.Shared)
    count = 0
    while True:
        try:
            consumer.acknowledge(consumer.receive(3000 if count else RECEIVE_TIMEOUT_MS))
        except pulsar.Timeout:
            return {"messages": count}
        count += 1


def delayed(client: pulsar.Client, at: argparse.Namespace) -> dict[str, float]:
    """Publishes messages that wait for an hour on a Shared subscription. Returns the megabytes that a million of them
    take.

    As many messages without a delay come first, on another topic: they fill the caches, whose memory is not a cost of
    the delay.
    """
    plain = client.create_producer(f"{at.topic}-plain", batching_enabled=False, block_if_queue_full=True)
    for _ in range(at.messages):
        plain.send_async(b"0123456789", _ignored)
    plain.flush()
    consumer = client.subscribe(at.topic, "delayed", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(at.topic, batching_enabled=False, block_if_queue_full=True)
    producer.send(b"warm")
    consumer.acknowledge(consumer.receive(RECEIVE_TIMEOUT_MS))
    before = memory_mb(at.server_pid)
    due = int(time.time() * 1000) + 3_600_000
    for number in range(at.messages):
        producer.send_async(b"0123456789", _ignored, deliver_at=due + number)
    producer.flush()
    _until_delayed(at)
    return {"megabytes": (memory_mb(at.server_pid) - before) * 1e6 / at.messages}


def _until_delayed(at: argparse.Namespace) -> None:
    """Waits until the dispatcher has looked at all messages."""
    name = at.topic.removeprefix("persistent://")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{at.web_url}/admin/v2/persistent/{name}/stats", timeout=10) as answer:
            stats = json.load(answer)
        if stats["subscriptions"]["delayed"]["msgDelayed"] >= at.messages:
            return
        time.sleep(0.2)
    raise SystemExit("the messages were not taken for delayed")


MODES: dict[str, Callable[[pulsar.Client, argparse.Namespace], Outcome | dict[str, float]]] = {
    "fan-out": fan_out,
    "shared": lambda client, at: shared(client, at, pulsar.ConsumerType.Shared),
    "key-shared": lambda client, at: shared(client, at, pulsar.ConsumerType.KeyShared),
    "topics": topics,
    "holes": holes,
    "left-over": left_over,
    "delayed": delayed,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.official_features", description=__doc__)
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("--url", required=True)
    parser.add_argument("--web-url", default="")
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--settle-seconds", type=float, default=2.0)
    at = parser.parse_args()
    client = pulsar.Client(at.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    result = MODES[at.mode](client, at)
    print(json.dumps(asdict(result) if isinstance(result, Outcome) else result), flush=True)
    os._exit(0)  # closing a thousand topics, or topics of a server that was killed, would take long and measure nothing


if __name__ == "__main__":
    raise SystemExit(main())
