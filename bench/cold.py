"""The scenario of a cold catch-up: eight readers of a topic each, when nothing of what they read is in memory,
and a client that publishes meanwhile."""

import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.disk_floor import write_latencies
from bench.driver import Outcome, quantile
from bench.loads import BATCH, NAMESPACE, latency_at, load, new_server, publish, subscribe
from bench.process_stats import cpu_seconds
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

READERS = 8
PER_SECOND = 1000
PUBLISH_SECONDS = 3
READERS_NICENESS = 10
"""Without it, eight drivers that read would keep the driver that publishes from the two cores, and its latencies would
say nothing about the server."""


def cold(product: Product, sizes: Sizes) -> Figures:
    each = sizes.cold // READERS // BATCH * BATCH
    topics = [f"cold-{number}" for number in range(READERS)]
    with new_server(product) as server:
        server.start()
        for topic in topics:
            subscribe(server, topic, "bench")
            publish(server, topic, each, BATCH)
        server.restart()
        subscribe(server, "latency", "bench")
        publish(server, "latency", sizes.unbatched // 3)
        quiet = latency_at(server, PER_SECOND, PUBLISH_SECONDS)
        stored = forget_files(server.data_dir)
        floor = write_latencies(server.data_dir, stored, PER_SECOND, PUBLISH_SECONDS)
        forget_files(server.data_dir)
        with ThreadPoolExecutor(READERS) as pool:
            before = cpu_seconds(server.pid)
            readers = [pool.submit(drain, server, topic, each) for topic in topics]
            beside = [latency_at(server, PER_SECOND, PUBLISH_SECONDS)]
            while not any(reader.done() for reader in readers):
                beside.append(latency_at(server, PER_SECOND, PUBLISH_SECONDS))
            seconds = max(reader.result().seconds for reader in readers)
            cpu = cpu_seconds(server.pid) - before
    if len(beside) > 1:
        beside.pop()  # In its last part the readers were done.
    return {
        "cold_rate": each * READERS / seconds / 1000,
        "cold_cpu": cpu / (each * READERS) * 1e6,
        "cold_quiet_p99": quiet.p99_ms,
        "cold_floor_p99": quantile(floor, 0.99),
        "cold_beside_p50": statistics.median(outcome.p50_ms for outcome in beside),
        "cold_beside_p99": statistics.median(outcome.p99_ms for outcome in beside),
    }


def drain(server: Server, topic: str, messages: int) -> Outcome:
    arguments = ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages), "--batch", str(BATCH)]
    return load("bench.driver", "consume", server, *arguments, niceness=READERS_NICENESS)


def forget_files(folder: Path) -> list[Path]:
    """Has the system write the files of the folder to the disk and forget what it holds of them in memory. Returns the
    files, the largest first."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return sorted(files, key=lambda path: path.stat().st_size, reverse=True)
