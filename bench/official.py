"""Loads with the official client, as a process of its own (`python -m bench.official MODE …`); prints one JSON object.

The client costs 25 to 45 µs of CPU a message, so a rate measured here is partly the client's. The server's CPU time is
only the server's.
"""

import argparse
import json
import threading
import time
from dataclasses import asdict

import pulsar

from bench.driver import Outcome, Stopwatch, with_latencies

QUEUE = 1000
RECEIVE_TIMEOUT_MS = 30_000
ACK_EVERY = 500


def tail(client: pulsar.Client, topic: str, messages: int, size: int, batched: bool, server_pid: int) -> Outcome:
    """Lets one thread publish while another consumes the messages as they come; ends with the last message consumed."""
    consumer = client.subscribe(topic, "bench", receiver_queue_size=QUEUE)
    producer = client.create_producer(
        topic, batching_enabled=batched, block_if_queue_full=True, max_pending_messages=QUEUE
    )
    producer.send(b"first")
    consumer.acknowledge(consumer.receive(RECEIVE_TIMEOUT_MS))
    body = bytes(size)
    failures: list[str] = []

    def publish() -> None:
        for _ in range(messages):
            producer.send_async(body, receipt)

    def receipt(result: pulsar.Result, _: object) -> None:
        if result != pulsar.Result.Ok:
            failures.append(str(result))

    watch = Stopwatch(server_pid)
    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    receive_all(consumer, messages)
    outcome = watch.outcome(messages)
    thread.join()
    producer.flush()
    assert not failures, failures[:3]
    return outcome


def catch_up(client: pulsar.Client, topic: str, subscription: str, messages: int, server_pid: int) -> Outcome:
    """Consumes everything that is stored for a subscription."""
    watch = Stopwatch(server_pid)
    consumer = client.subscribe(topic, subscription, receiver_queue_size=QUEUE)
    receive_all(consumer, messages)
    return watch.outcome(messages)


def synchronous(client: pulsar.Client, topic: str, messages: int, size: int, server_pid: int) -> Outcome:
    """Publishes messages back to back, each when the receipt of the one before has come. The first tenth does not
    count."""
    producer = client.create_producer(topic, batching_enabled=False)
    body = bytes(size)
    for _ in range(messages // 10):
        producer.send(body)
    latencies_ms = []
    watch = Stopwatch(server_pid)
    for _ in range(messages):
        began = time.perf_counter()
        producer.send(body)
        latencies_ms.append((time.perf_counter() - began) * 1000)
    return with_latencies(watch.outcome(messages), latencies_ms)


def receive_all(consumer: pulsar.Consumer, messages: int) -> None:
    for index in range(1, messages + 1):
        message = consumer.receive(RECEIVE_TIMEOUT_MS)
        if index % ACK_EVERY == 0 or index == messages:
            consumer.acknowledge_cumulative(message)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.official", description=__doc__)
    parser.add_argument("mode", choices=["tail", "catch-up", "synchronous"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--subscription", default="bench")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--batched", action="store_true")
    at = parser.parse_args()
    client = pulsar.Client(at.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    if at.mode == "tail":
        outcome = tail(client, at.topic, at.messages, at.size, at.batched, at.server_pid)
    elif at.mode == "synchronous":
        outcome = synchronous(client, at.topic, at.messages, at.size, at.server_pid)
    else:
        outcome = catch_up(client, at.topic, at.subscription, at.messages, at.server_pid)
    client.close()
    print(json.dumps(asdict(outcome)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
