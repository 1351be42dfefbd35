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
        figures = {
            "spark_batch_rate": read(server, "spark_batched", sizes.spark),
            "spark_single_rate": read(server, "spark_single", sizes.spark),
            "spark_stream_rate": read(server, "spark_batched", sizes.spark, "--stream"),
        }
        published = published_rates(server, ("spark_batched", "spark_single"), sizes.spark)
        figures["published_batch_rate"], figures["published_single_rate"] = published
        for kind in ("batch", "single"):
            figures[f"spark_{kind}_ratio"] = figures[f"spark_{kind}_rate"] / figures[f"published_{kind}_rate"]
    return figures


def read(server: Server, topic: str, messages: int, *more: str) -> float:
    """Thousands of rows a second."""
    place = ["--service-url", server.broker_url, "--admin-url", server.web_url, "--messages", str(messages)]
    names = ["--topic", f"{NAMESPACE}/{topic}", "--small-topic", f"{NAMESPACE}/spark_small"]
    settings = [f"--setting={name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "bench.spark_reader", *place, *names, *settings, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    seconds: float = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return messages / seconds / 1000


def published_rates(server: Server, topics: tuple[str, ...], messages: int) -> list[float]:
    """The same of the published connector: a small read first, a session like ours."""
    rates = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-spark-") as folder,
        Driver(Path(folder), settings=SETTINGS) as driver,
    ):
        for topic in ("spark_small", *topics):
            began = time.monotonic()
            driver.run(f"""
                frame = session.read.format("pulsar").option("service.url", "{server.broker_url}")
                frame = frame.option("admin.url", "{server.web_url}").option("topic", "{NAMESPACE}/{topic}").load()
                frame.write.format("noop").mode("overwrite").save()
            """)
            rates.append(messages / (time.monotonic() - began) / 1000)
    return rates[1:]
