"""Small functions over the official client that most tests here use."""

import random
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import pulsar

RECEIVE_TIMEOUT_MS = 60_000
"""How long to wait for something that must come; a busy machine may stall for seconds."""
SEND_TIMEOUT_MS = 3000
"""How long a message that is refused is tried again."""
SILENCE_MS = 300
"""How long a queue must stay empty to count as empty. So a message that should not come is noticed often, but not
always."""


def bodies(count: int, prefix: str = "m") -> list[bytes]:
    return [f"{prefix}-{index}".encode() for index in range(count)]


def incompressible(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def send_all(producer: Any, contents: Iterable[bytes]) -> list[Any]:
    """Sends without waiting in between, flushes, and returns the message ids in order. Raises when a send failed."""
    futures: list[Future[Any]] = []
    for content in contents:
        future: Future[Any] = Future()
        futures.append(future)
        producer.send_async(content, settle(future))
    producer.flush()
    return [future.result(RECEIVE_TIMEOUT_MS / 1000) for future in futures]


def can_send(client: pulsar.Client, topic: str) -> bool:
    """Returns whether a message can be published, the body `after`. One that cannot is given up soon."""
    try:
        producer = client.create_producer(topic, send_timeout_millis=SEND_TIMEOUT_MS)
        producer.send(b"after")
        producer.close()
    except pulsar.PulsarException:
        return False
    return True


def settle(future: "Future[Any]") -> Any:
    """Returns a send callback that completes the future."""

    def callback(result: Any, message_id: Any) -> None:
        if result == pulsar.Result.Ok:
            future.set_result(pulsar.MessageId.wrap(message_id))
        else:
            future.set_exception(RuntimeError(f"send failed: {result}"))

    return callback


def receive(consumer: Any, count: int, timeout_ms: int = RECEIVE_TIMEOUT_MS) -> list[Any]:
    """Returns the next messages without acknowledging them. Raises pulsar.Timeout."""
    return [consumer.receive(timeout_ms) for _ in range(count)]


def receive_bodies(consumer: Any, count: int) -> list[bytes]:
    """Receives and acknowledges messages, and returns their bodies."""
    got = []
    for message in receive(consumer, count):
        got.append(message.data())
        consumer.acknowledge(message)
    return got


def receive_without_queue(consumer: Any, count: int) -> list[bytes]:
    """Does what `receive_bodies` does, for a receiver queue of 0, whose `receive` takes no timeout. Raises
    TimeoutError."""
    got: list[bytes] = []
    for _ in range(count):
        result: Future[Any] = Future()
        threading.Thread(target=lambda into=result: into.set_result(consumer.receive()), daemon=True).start()
        message = result.result(RECEIVE_TIMEOUT_MS / 1000)
        got.append(message.data())
        consumer.acknowledge(message)
    return got


def read_bodies(reader: Any, count: int) -> list[bytes]:
    return [reader.read_next(RECEIVE_TIMEOUT_MS).data() for _ in range(count)]


def assert_silent(consumer: Any) -> None:
    """Checks that nothing more comes to a consumer or reader."""
    take = consumer.receive if hasattr(consumer, "receive") else consumer.read_next
    try:
        message = take(SILENCE_MS)
    except pulsar.Timeout:
        return
    raise AssertionError(f"unexpected message {message.data()[:60]!r} {message.message_id()}")


def position(message_id: Any) -> tuple[int, int]:
    return message_id.ledger_id(), message_id.entry_id()


def contents(client: pulsar.Client, topic: str) -> list[Any]:
    """Returns all messages of a topic, one partition after the other, as the official client reads them."""
    messages = []
    for partition in client.get_topic_partitions(topic):
        reader = client.create_reader(partition, pulsar.MessageId.earliest)
        while reader.has_message_available():
            messages.append(reader.read_next(60_000))
        reader.close()
    return messages
