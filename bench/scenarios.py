"""What is done to a server to get the figures. Each scenario has a server and a folder of its own, removed after."""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.bookies import bookies
from bench.driver import Outcome
from bench.process_stats import cpu_seconds, memory_mb
from bench.rows import ADMIN, BATCHES, BOOKIES, CATCH_UP, FEATURES, LATENCY, LIFECYCLE, SPARK, TAIL
from bench.sizes import Figures, Scenario, Sizes
from compat_tests import wire
from compat_tests.harness import Product, Server, free_port

LOAD_TIMEOUT_SECONDS = 300
FIRST_MESSAGE_TIMEOUT_SECONDS = 120
CONNECT_POLL_SECONDS = 0.002
NAMESPACE = "persistent://public/default"
BATCH = 120
BATCH_WINDOW = 200


@contextmanager
def new_server(product: Product, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server that is not started yet, on an empty folder."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{product.name}-"))
    server = Server(folder, product=product, settings=settings)
    try:
        yield server
        server.close()
        server.assert_no_errors()
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


def load(module: str, mode: str, server: Server, *arguments: str) -> Outcome:
    """Runs a driver process against a server. Raises CalledProcessError with its words on stderr."""
    where = ["--port", str(server.broker_port)] if module == "bench.driver" else ["--url", server.broker_url]
    command = [sys.executable, "-m", module, mode, *where, "--server-pid", str(server.pid), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_TIMEOUT_SECONDS, check=True)
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def publish(server: Server, topic: str, messages: int, batch: int = 1) -> Outcome:
    arguments = ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages), "--batch", str(batch)]
    if batch > 1:
        arguments += ["--window", str(BATCH_WINDOW)]
    return load("bench.driver", "publish", server, *arguments)


def rate(outcome: Outcome) -> float:
    """Thousands of messages a second."""
    return outcome.messages / outcome.seconds / 1000


def cost(outcome: Outcome) -> float:
    """The server's CPU seconds for a million messages."""
    return outcome.server_cpu_seconds / outcome.messages * 1e6


def median_of(outcomes: list[Outcome], figure: Callable[[Outcome], float]) -> float:
    return statistics.median(map(figure, outcomes))


def lifecycle(product: Product, sizes: Sizes) -> Figures:
    """From the first start to the last stop of one data folder, with a million messages in between."""
    figures: Figures = {}
    with new_server(product) as server:
        ports = (free_port(), free_port())
        figures["start"] = seconds_to_first_message(server, ports, produce=True)
        figures["idle_cpu"] = idle_cpu_percent(server, sizes.idle_seconds)
        figures["idle_memory"] = memory_mb(server.pid)
        with urllib.request.urlopen(f"{server.web_url}/metrics", timeout=30) as answer:
            answer.read()
        figures["idle_memory_web"] = memory_mb(server.pid)
        subscribe(server, "stored", "bench")
        warm_up = sizes.stored - sizes.runs * sizes.unbatched
        publish(server, "stored", warm_up)
        runs = [publish(server, "stored", sizes.unbatched) for _ in range(sizes.runs)]
        figures["publish_rate"] = median_of(runs, rate)
        figures["publish_cpu"] = median_of(runs, cost)
        figures["loaded_memory"] = memory_mb(server.pid)
        server.kill()
        figures["start_after_kill"] = seconds_to_first_message(server, ports, produce=False)
        publish(server, "stored", sizes.unbatched // 3)
        figures["stop"] = server.stop()
    return figures


def seconds_to_first_message(server: Server, ports: tuple[int, int], *, produce: bool) -> float:
    """From the command to the first message consumed; each failed try is repeated at once."""
    began = server.spawn(ports)
    topic = f"{NAMESPACE}/{'first' if produce else 'stored'}"
    while True:
        try:
            with wire.WireClient(ports[0]) as client:
                client.subscribe(topic, "bench")
                client.send(wire.FLOW, [(1, 1), (2, 1)])
                if produce:
                    client.open_producer(topic)
                    client.socket.sendall(wire.send_frame(1, 0, b"first"))
                while client.receive()[0] != wire.MESSAGE:
                    continue
                return time.monotonic() - began
        except (OSError, wire.ClosedError, AssertionError):
            if time.monotonic() - began > FIRST_MESSAGE_TIMEOUT_SECONDS:
                raise
            time.sleep(CONNECT_POLL_SECONDS)


def idle_cpu_percent(server: Server, seconds: float) -> float:
    """After a moment in which the start's own work ends."""
    time.sleep(seconds / 4)
    before, began = cpu_seconds(server.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(server.pid) - before) / (time.monotonic() - began) * 100


def subscribe(server: Server, topic: str, subscription: str) -> None:
    """Makes a durable subscription at the topic's beginning, with nobody connected to it."""
    with wire.WireClient(server.broker_port) as client:
        client.subscribe(f"{NAMESPACE}/{topic}", subscription)


def batches(product: Product, sizes: Sizes) -> Figures:
    with new_server(product) as server:
        server.start()
        subscribe(server, "batches", "bench")
        publish(server, "batches", sizes.batched // 2, BATCH)
        runs = [publish(server, "batches", sizes.batched, BATCH) for _ in range(sizes.runs)]
    return {"batch_rate": median_of(runs, rate), "batch_cpu": median_of(runs, cost)}


def tail(product: Product, sizes: Sizes) -> Figures:
    with new_server(product) as server:
        server.start()
        runs = [tail_once(server, index, sizes) for index in range(sizes.runs + int(product.is_peer))]
        counted = runs[-sizes.runs :]
    return {"tail_rate": median_of(counted, rate), "tail_cpu": median_of(counted, cost)}


def tail_once(server: Server, index: int, sizes: Sizes) -> Outcome:
    return load("bench.official", "tail", server, "--topic", f"tail-{index}", "--messages", str(sizes.tail))


def catch_up(product: Product, sizes: Sizes) -> Figures:
    """The first consumer after a restart counts: nothing is warm. The official client reads after the raw one."""
    figures: Figures = {}
    plan = (
        ("catchup_batch", "official_batch", BATCH, sizes.catch_up_batched),
        ("catchup", "official_single", 1, sizes.catch_up_unbatched),
    )
    with new_server(product) as server:
        server.start()
        for name, _, batch, messages in plan:
            for subscription in ("raw", "official"):
                subscribe(server, name, subscription)
            publish(server, name, messages, batch)
        server.restart()
        for name, official, batch, messages in plan:
            topic = ["--topic", f"{NAMESPACE}/{name}", "--messages", str(messages)]
            raw = load("bench.driver", "consume", server, *topic, "--batch", str(batch), "--subscription", "raw")
            figures[f"{name}_rate"], figures[f"{name}_cpu"] = rate(raw), cost(raw)
            client = load("bench.official", "catch-up", server, *topic, "--subscription", "official")
            figures[official] = rate(client)
    return figures


def latency(product: Product, sizes: Sizes) -> Figures:
    with new_server(product) as server:
        server.start()
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        fast = latency_at(server, 1000, sizes)
        slow = latency_at(server, 100, sizes)
    return {"latency_p50": fast.p50_ms, "latency_p99": fast.p99_ms, "slow_latency_p50": slow.p50_ms}


def latency_at(server: Server, per_second: int, sizes: Sizes) -> Outcome:
    count = str(per_second * sizes.latency_seconds)
    topic = f"{NAMESPACE}/latency"
    return load("bench.driver", "latency", server, "--topic", topic, "--messages", count, "--rate", str(per_second))


def spark(product: Product, sizes: Sizes) -> Figures:
    """Imported when it is run: the other scenarios need no Spark."""
    from bench.spark import spark as measured

    return measured(product, sizes)


def features(product: Product, sizes: Sizes) -> Figures:
    """Imported when it is run, as it builds on what stands here."""
    from bench.features import features as measured

    return measured(product, sizes)


def admin(product: Product, sizes: Sizes) -> Figures:
    """Imported when it is run, as it builds on what stands here."""
    from bench.admin import admin as measured

    return measured(product, sizes)


SCENARIOS: dict[str, Scenario] = {
    LIFECYCLE: lifecycle,
    BATCHES: batches,
    TAIL: tail,
    CATCH_UP: catch_up,
    LATENCY: latency,
    ADMIN: admin,
    BOOKIES: bookies,
    SPARK: spark,
    FEATURES: features,
}
