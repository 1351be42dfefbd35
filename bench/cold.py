"""The scenario of a cold catch-up: eight readers of a topic each, when nothing of what they read is in memory,
and a client that publishes meanwhile."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.driver import Outcome
from bench.loads import BATCH, NAMESPACE, load, new_server, publish, subscribe
from bench.process_stats import cpu_seconds
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

READERS = 8
PER_SECOND = 1000
PUBLISH_SECONDS = 5


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
        quiet = publish_for_a_while(server)
        forget_files(server.data_dir)
        with ThreadPoolExecutor(READERS + 1) as pool:
            before = cpu_seconds(server.pid)
            readers = [pool.submit(drain, server, topic, each) for topic in topics]
            beside = pool.submit(publish_for_a_while, server)
            seconds = max(reader.result().seconds for reader in readers)
            cpu = cpu_seconds(server.pid) - before
            loaded = beside.result()
    return {
        "cold_rate": each * READERS / seconds / 1000,
        "cold_cpu": cpu / (each * READERS) * 1e6,
        "cold_quiet_p99": quiet.p99_ms,
        "cold_beside_p99": loaded.p99_ms,
    }


def drain(server: Server, topic: str, messages: int) -> Outcome:
    arguments = ["--topic", f"{NAMESPACE}/{topic}", "--messages", str(messages), "--batch", str(BATCH)]
    return load("bench.driver", "consume", server, *arguments)


def publish_for_a_while(server: Server) -> Outcome:
    arguments = ["--messages", str(PER_SECOND * PUBLISH_SECONDS), "--rate", str(PER_SECOND)]
    return load("bench.driver", "latency", server, "--topic", f"{NAMESPACE}/latency", *arguments)


def forget_files(folder: Path) -> None:
    """Has the system write the files of the folder to the disk and forget what it holds of them in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
