"""A server on an empty folder, and the loads that all scenarios put on it: publishing, and a rate with its
latencies."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.driver import Outcome
from compat_tests import wire
from compat_tests.harness import UNWATCHED, Server
from compat_tests.products import Product

LOAD_TIMEOUT_SECONDS = 600
NAMESPACE = "persistent://public/default"
RAW_DRIVERS = ("bench.driver", "bench.many_topics")
"""The drivers that connect to the broker's port by themselves, without a client."""
BATCH = 120
"""How many messages a batch has, where a load publishes batches."""
WIDE_BATCH, WIDE_BATCH_BYTES = 1000, 100
"""How many messages of how many bytes a large batch of small messages has."""
BATCH_WINDOW = 200
"""How many batches may be unanswered at once."""


@contextmanager
def new_server(product: Product, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Yields a server on an empty folder; the caller starts it."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{product.name}-"))
    server = Server(folder, product=product, settings=settings, environment=UNWATCHED)
    try:
        yield server
        server.close()
        server.assert_no_errors()
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


def load(module: str, mode: str, server: Server, *arguments: str, niceness: int = 0) -> Outcome:
    """Runs a driver process against a server; with a `niceness` above 0 it gives way to the server and other drivers.
    Raises CalledProcessError."""
    where = ["--port", str(server.broker_port)] if module in RAW_DRIVERS else ["--url", server.broker_url]
    command = [sys.executable, "-m", module, mode, *where, "--server-pid", str(server.pid), *arguments]
    if niceness:
        command = ["nice", "-n", str(niceness), *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_TIMEOUT_SECONDS, check=True)
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def publish(server: Server, topic: str, messages: int, batch: int = 1, size: int = 1024) -> Outcome:
    """Publishes messages of `size` bytes, `batch` of them at once, as fast as the server answers."""
    arguments = ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages), "--batch", str(batch)]
    arguments += ["--size", str(size)]
    if batch > 1:
        arguments += ["--window", str(BATCH_WINDOW)]
    return load("bench.driver", "publish", server, *arguments)


def rate(outcome: Outcome) -> float:
    """Returns the rate in thousands of messages a second."""
    return outcome.messages / outcome.seconds / 1000


def cost(outcome: Outcome) -> float:
    """Returns the CPU seconds that the server needs for a million messages."""
    return outcome.server_cpu_seconds / outcome.messages * 1e6


def median_of(outcomes: list[Outcome], figure: Callable[[Outcome], float]) -> float:
    return statistics.median(map(figure, outcomes))


def subscribe(server: Server, topic: str, subscription: str) -> None:
    """Makes a durable subscription at the topic's beginning, with no consumer connected to it."""
    with wire.WireClient(server.broker_port) as client:
        client.subscribe(f"{NAMESPACE}/{topic}", subscription)


def latency_at(server: Server, per_second: int, seconds: int) -> Outcome:
    """Publishes so many messages a second to the topic `latency`, whatever the server does."""
    topic, count = f"{NAMESPACE}/latency", str(per_second * seconds)
    return load("bench.driver", "latency", server, "--topic", topic, "--messages", count, "--rate", str(per_second))
