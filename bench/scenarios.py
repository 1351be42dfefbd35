"""What the bench does to a server to get its figures. Each scenario has a server and a folder of its own, which is
removed afterwards."""

import time
import urllib.request

from bench.admin import admin
from bench.beside import beside
from bench.bookies import bookies
from bench.brokers import brokers
from bench.cluster import cluster
from bench.cold import cold
from bench.connections import connections
from bench.driver import Outcome
from bench.features import features
from bench.loads import (
    BATCH,
    NAMESPACE,
    WIDE_BATCH,
    WIDE_BATCH_BYTES,
    cost,
    latency_at,
    load,
    median_of,
    new_server,
    publish,
    rate,
    subscribe,
)
from bench.open_transactions import open_transactions
from bench.process_stats import cpu_seconds, memory_mb
from bench.rows import (
    ADMIN,
    BATCHES,
    BESIDE,
    BOOKIES,
    CATCH_UP,
    CLUSTER,
    COLD,
    CONNECTIONS,
    FEATURES,
    LATENCY,
    LIFECYCLE,
    MANY_TOPICS,
    MORE_BROKERS,
    MORE_TOPICS,
    OPEN_TRANSACTIONS,
    SCALE,
    SCRAPE,
    SPARK,
    STARTS,
    TAIL,
    TRANSACTIONS,
    WEBSOCKETS,
    WITHOUT_TRANSACTIONS,
)
from bench.scale import scale
from bench.scrape import scrape
from bench.sizes import Figures, Scenario, Sizes
from bench.starts import seconds_until, starts
from bench.transactions import transactions
from bench.websockets import websockets
from bench.without_transactions import topics_without_transactions
from compat_tests import wire
from compat_tests.harness import Server, free_port
from compat_tests.products import Product


def lifecycle(product: Product, sizes: Sizes) -> Figures:
    """Measures from the first start to the last stop of one data folder, with a million messages in between."""
    figures: Figures = {}
    with new_server(product) as server:
        ports = (free_port(), free_port())
        figures["start"] = seconds_until(server, ports, get_first)
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
        figures["start_after_kill"] = seconds_until(server, ports, get_stored)
        publish(server, "stored", sizes.unbatched // 3)
        figures["stop"] = server.stop()
    return figures


def get_first(client: wire.WireClient) -> None:
    """Publishes a message and consumes it."""
    topic = f"{NAMESPACE}/first"
    begin_to_consume(client, topic)
    client.open_producer(topic)
    client.socket.sendall(wire.send_frame(1, 0, b"first"))
    await_message(client)


def get_stored(client: wire.WireClient) -> None:
    """Consumes one of the stored messages."""
    begin_to_consume(client, f"{NAMESPACE}/stored")
    await_message(client)


def begin_to_consume(client: wire.WireClient, topic: str) -> None:
    client.subscribe(topic, "bench")
    client.send(wire.FLOW, [(1, 1), (2, 1)])


def await_message(client: wire.WireClient) -> None:
    while client.receive()[0] != wire.MESSAGE:
        continue


def idle_cpu_percent(server: Server, seconds: float) -> float:
    """Returns the CPU share of an idle server. A pause before lets the work of the start end."""
    time.sleep(seconds / 4)
    before, began = cpu_seconds(server.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(server.pid) - before) / (time.monotonic() - began) * 100


def batches(product: Product, sizes: Sizes) -> Figures:
    with new_server(product) as server:
        server.start()
        subscribe(server, "batches", "bench")
        publish(server, "batches", sizes.batched // 2, BATCH)
        runs = [publish(server, "batches", sizes.batched, BATCH) for _ in range(sizes.runs)]
        wide = [publish_wide(server, sizes) for _ in range(1 + sizes.runs)][1:]  # the first run warms up
    return {
        "batch_rate": median_of(runs, rate),
        "batch_cpu": median_of(runs, cost),
        "wide_batch_rate": median_of(wide, rate),
        "wide_batch_cpu": median_of(wide, cost),
    }


def publish_wide(server: Server, sizes: Sizes) -> Outcome:
    return publish(server, "batches", sizes.wide_batched, WIDE_BATCH, WIDE_BATCH_BYTES)


def tail(product: Product, sizes: Sizes) -> Figures:
    with new_server(product) as server:
        server.start()
        runs = [tail_once(server, index, sizes) for index in range(sizes.runs + int(product.is_peer))]
        counted = runs[-sizes.runs :]
    return {"tail_rate": median_of(counted, rate), "tail_cpu": median_of(counted, cost)}


def tail_once(server: Server, index: int, sizes: Sizes) -> Outcome:
    return load("bench.official", "tail", server, "--topic", f"tail-{index}", "--messages", str(sizes.tail))


def catch_up(product: Product, sizes: Sizes) -> Figures:
    """Measures catch-up reads. The first consumer after a restart counts, because nothing is warm then; the official
    client reads after the raw driver."""
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


def many_topics(product: Product, sizes: Sizes) -> Figures:
    """Measures one producer on each of many topics, and after that with a consumer at the tail of each."""
    figures: Figures = {}
    options = ["--topics", str(sizes.topics), "--messages", str(sizes.many_messages)]
    with new_server(product) as server:
        server.start()
        for name, mode in (("many", "publish"), ("many_tail", "tail")):
            # The first run makes the topics, and warms up.
            runs = [load_many(server, mode, options) for _ in range(1 + sizes.runs)][1:]
            figures[f"{name}_rate"], figures[f"{name}_cpu"] = median_of(runs, rate), median_of(runs, cost)
    return figures


def more_topics(product: Product, sizes: Sizes) -> Figures:
    """Measures the same load over ten times as many topics, and with a connection for each topic."""
    figures: Figures = {}
    messages = ["--messages", str(sizes.many_messages)]
    wide = ["--topics", str(10 * sizes.topics)]
    lanes = ["--topics", str(sizes.topics), "--connections", str(sizes.topics)]
    for name, options in (("wide", wide), ("lanes", lanes)):
        with new_server(product) as server:
            server.start()
            runs = [load_many(server, "publish", [*options, *messages]) for _ in range(1 + sizes.runs)][1:]
            figures[f"many_{name}_rate"] = median_of(runs, rate)
            figures[f"many_{name}_cpu"] = median_of(runs, cost)
    return figures


def load_many(server: Server, mode: str, options: list[str]) -> Outcome:
    return load("bench.many_topics", mode, server, "--topic", f"{NAMESPACE}/many", *options)


def latency(product: Product, sizes: Sizes) -> Figures:
    with new_server(product) as server:
        server.start()
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        fast = latency_at(server, 1000, sizes.latency_seconds)
        slow = latency_at(server, 100, sizes.latency_seconds)
        topic = ["--topic", f"{NAMESPACE}/synchronous", "--messages", str(sizes.synchronous)]
        official = load("bench.official", "synchronous", server, *topic)
    return {
        "latency_p50": fast.p50_ms,
        "latency_p99": fast.p99_ms,
        "latency_p999": fast.p999_ms,
        "latency_max": fast.max_ms,
        "slow_latency_p50": slow.p50_ms,
        "synchronous_p50": official.p50_ms,
        "synchronous_p99": official.p99_ms,
    }


def spark(product: Product, sizes: Sizes) -> Figures:
    """Runs the Spark scenario. It is imported only here, because the other scenarios need no Spark."""
    from bench.spark import spark as measured

    return measured(product, sizes)


SCENARIOS: dict[str, Scenario] = {
    LIFECYCLE: lifecycle,
    STARTS: starts,
    BATCHES: batches,
    TAIL: tail,
    CATCH_UP: catch_up,
    COLD: cold,
    LATENCY: latency,
    BESIDE: beside,
    ADMIN: admin,
    BOOKIES: bookies,
    SPARK: spark,
    FEATURES: features,
    MANY_TOPICS: many_topics,
    MORE_TOPICS: more_topics,
    CONNECTIONS: connections,
    WEBSOCKETS: websockets,
    TRANSACTIONS: transactions,
    WITHOUT_TRANSACTIONS: topics_without_transactions,
    OPEN_TRANSACTIONS: open_transactions,
    CLUSTER: cluster,
    MORE_BROKERS: brokers,
    SCALE: scale,
    SCRAPE: scrape,
}
