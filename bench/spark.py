"""The Spark scenario: the Python data source on `local[2]`, server included, and the published connector beside it."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.scenarios import BATCH, NAMESPACE, new_server, publish, subscribe
from bench.sizes import Figures, Sizes
from compat_tests.harness import Product, Server
from compat_tests.spark.published import Driver

SECONDS = 900
SMALL = 20_000
SETTINGS = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": ""}
"""Of both sessions, ours and the published connector's."""


def spark(product: Product, sizes: Sizes) -> Figures:
    topics = {"spark_batched": BATCH, "spark_single": 1, "spark_small": BATCH}
    with new_server(product) as server:
        server.start()
        for topic, batch in topics.items():
            subscribe(server, topic, "keeps")
            publish(server, topic, SMALL if topic == "spark_small" else sizes.spark, batch)
        both = ("spark_batched", "spark_single")
        batched, single = rates(server, both, sizes.spark)
        (streamed,) = rates(server, both[:1], sizes.spark, "--stream")
        figures = {"spark_batch_rate": batched, "spark_single_rate": single, "spark_stream_rate": streamed}
        published = published_rates(server, both, sizes.spark)
        figures["published_batch_rate"], figures["published_single_rate"] = published
        for kind in ("batch", "single"):
            figures[f"spark_{kind}_ratio"] = figures[f"spark_{kind}_rate"] / figures[f"published_{kind}_rate"]
    return figures


def rates(server: Server, topics: tuple[str, ...], messages: int, *more: str) -> list[float]:
    """Thousands of rows a second, of each topic, in one session."""
    place = ["--service-url", server.broker_url, "--admin-url", server.web_url, "--messages", str(messages)]
    names = [*(f"--topic={NAMESPACE}/{topic}" for topic in topics), "--small-topic", f"{NAMESPACE}/spark_small"]
    settings = [f"--setting={name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "bench.spark_reader", *place, *names, *settings, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    return [messages / seconds / 1000 for seconds in json.loads(done.stdout.splitlines()[-1])["seconds"]]


def published_rates(server: Server, topics: tuple[str, ...], messages: int) -> list[float]:
    """The same of the published connector: a session like ours, each topic read twice too."""
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-spark-") as folder,
        Driver(Path(folder), settings=SETTINGS) as driver,
    ):
        for topic in topics:
            for _ in range(2):
                began = time.monotonic()
                driver.run(f"""
                    frame = session.read.format("pulsar").option("service.url", "{server.broker_url}")
                    frame = frame.option("admin.url", "{server.web_url}").option("topic", "{NAMESPACE}/{topic}").load()
                    frame.write.format("noop").mode("overwrite").save()
                """)
                seconds = time.monotonic() - began
            found.append(messages / seconds / 1000)
    return found
