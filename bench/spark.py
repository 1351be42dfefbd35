"""The Spark scenario: the Python data source on `local[2]`, with the server on the same cores, and the published
connector beside it."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.loads import BATCH, NAMESPACE, new_server, publish, subscribe
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product
from compat_tests.spark.published import Driver

SMALL = 160 * BATCH
ROUNDS = 3
"""How often each reader reads a topic, in turns, because the machine is shared and its speed changes while we measure.
One more round comes first and does not count: it warms up Java and brings the ledgers into the page cache."""
SETTINGS = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": ""}
"""The settings of both sessions, ours and the published connector's."""
ENDS_WITHIN_SECONDS = 30

Read = Callable[[str], float]
"""Reads a whole topic with all columns, and returns the seconds that it took."""


def spark(product: Product, sizes: Sizes) -> Figures:
    counts = {"spark_small": SMALL, "spark_batched": sizes.spark, "spark_single": sizes.spark}
    figures: Figures = {}
    with new_server(product) as server:
        server.start()
        for topic, messages in counts.items():
            subscribe(server, topic, "keeps")
            publish(server, topic, messages, 1 if topic == "spark_single" else BATCH)
        with magnetar_reader(server, counts) as ours, published_reader(server) as theirs:
            for kind, topic in (("batch", "spark_batched"), ("single", "spark_single")):
                pairs = [(ours(topic), theirs(topic)) for _ in range(1 + ROUNDS)][1:]
                our, their = (sizes.spark / median(seconds) / 1000 for seconds in zip(*pairs, strict=True))
                figures |= {f"spark_{kind}_rate": our, f"published_{kind}_rate": their}
                figures[f"spark_{kind}_ratio"] = median(second / first for first, second in pairs)
        with magnetar_reader(server, counts, "--stream") as stream:
            figures["spark_stream_rate"] = sizes.spark / stream("spark_batched") / 1000
    return figures


@contextmanager
def magnetar_reader(server: Server, counts: Mapping[str, int], *more: str) -> Iterator[Read]:
    """Starts a process with a Spark session, which has read a small topic when this yields."""
    place = ["--service-url", server.broker_url, "--admin-url", server.web_url]
    settings = [f"--setting={name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "bench.spark_reader", *place, *settings, *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def read(topic: str) -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{NAMESPACE}/{topic} {counts[topic]}\n")
            process.stdin.flush()
            return float(json.loads(process.stdout.readline()))

        try:
            read("spark_small")
            yield read
            process.stdin.close()  # type: ignore[union-attr]
            process.wait(ENDS_WITHIN_SECONDS)
        finally:
            process.kill()


@contextmanager
def published_reader(server: Server) -> Iterator[Read]:
    """Starts a session like ours with the published connector, which has read the same small topic when this yields."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-spark-") as folder,
        Driver(Path(folder), settings=SETTINGS) as driver,
    ):

        def read(topic: str) -> float:
            began = time.monotonic()
            driver.run(f"""
                frame = session.read.format("pulsar").option("service.url", "{server.broker_url}")
                frame = frame.option("admin.url", "{server.web_url}").option("topic", "{NAMESPACE}/{topic}").load()
                frame.write.format("noop").mode("overwrite").save()
            """)
            return time.monotonic() - began

        read("spark_small")
        yield read
