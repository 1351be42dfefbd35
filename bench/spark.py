"""The Spark scenario: the Python data source beside the published connector on `local[2]`, what is the most that it
could reach there (`bench.spark_bound`), and clusters of two and four executors. The server shares the machine's cores
with all of them."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.loads import BATCH, NAMESPACE, new_server, publish, subscribe
from bench.process_stats import cpu_seconds
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product
from compat_tests.spark.published import Driver

SMALL = 160 * BATCH
ROUNDS = 3
"""How often each reader reads a topic, in turns, because the machine is shared and its speed changes while we measure.
One more round comes first and does not count: it warms up Java and brings the ledgers into the page cache."""
EXECUTORS = (2, 4)
SETTINGS = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": ""}
"""The settings of both sessions, ours and the published connector's."""
ENDS_WITHIN_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Reading:
    """What it took to read a whole topic with all columns: seconds, CPU seconds of Spark with its Python workers, and
    CPU seconds of the server."""

    seconds: float
    cpu: float
    server_cpu: float


Read = Callable[[str], Reading]


def spark(product: Product, sizes: Sizes) -> Figures:
    counts = {"spark_small": SMALL, "spark_batched": sizes.spark, "spark_single": sizes.spark}
    figures: Figures = {}
    with new_server(product) as server:
        server.start()
        for topic, messages in counts.items():
            subscribe(server, topic, "keeps")
            publish(server, topic, messages, 1 if topic == "spark_single" else BATCH)
        with (
            magnetar_reader(server, counts) as ours,
            magnetar_reader(server, counts, "--prepared") as prepared,
            published_reader(server) as theirs,
        ):
            for kind, topic in (("batch", "spark_batched"), ("single", "spark_single")):
                turns = [(ours(topic), prepared(topic), theirs(topic)) for _ in range(1 + ROUNDS)][1:]
                figures |= all_readers(kind, turns, sizes.spark)
        with magnetar_reader(server, counts, "--stream") as stream:
            figures["spark_stream_rate"] = sizes.spark / stream("spark_batched").seconds / 1000
        for executors in EXECUTORS:
            with magnetar_reader(server, counts, f"--master=local-cluster[{executors},1,1024]") as cluster:
                readings = [cluster("spark_batched") for _ in range(1 + ROUNDS)][1:]
            figures |= scaled(executors, readings, sizes.spark)
    return figures


def all_readers(kind: str, turns: list[tuple[Reading, Reading, Reading]], rows: int) -> Figures:
    """Returns the figures of the readers, which read by turns: rates, CPU seconds for a million rows, and the ratios to
    the published connector's rate in the same turn."""
    figures: Figures = {
        f"spark_{kind}_ratio": median(their.seconds / our.seconds for our, _, their in turns),
        f"prepared_{kind}_ratio": median(their.seconds / least.seconds for _, least, their in turns),
    }
    for name, readings in zip(("spark", "prepared", "published"), zip(*turns, strict=True), strict=True):
        figures[f"{name}_{kind}_rate"] = rows / median(each.seconds for each in readings) / 1000
        figures[f"{name}_{kind}_cpu"] = median(each.cpu for each in readings) / rows * 1e6
        figures[f"{name}_{kind}_server_cpu"] = median(each.server_cpu for each in readings) / rows * 1e6
    return figures


def scaled(executors: int, readings: list[Reading], rows: int) -> Figures:
    return {
        f"spark_{executors}_executors_rate": rows / median(each.seconds for each in readings) / 1000,
        f"spark_{executors}_executors_cpu": median(each.cpu for each in readings) / rows * 1e6,
    }


def measured(server: Server, reader_pid: int, read: Callable[[], object]) -> Reading:
    """Calls `read`, and returns what it took the reader's processes and the server."""
    assert server.pid is not None
    cpu, server_cpu, began = cpu_seconds(reader_pid), cpu_seconds(server.pid), time.monotonic()
    read()
    seconds = time.monotonic() - began
    return Reading(seconds, cpu_seconds(reader_pid) - cpu, cpu_seconds(server.pid) - server_cpu)


@contextmanager
def magnetar_reader(server: Server, counts: Mapping[str, int], *more: str) -> Iterator[Read]:
    """Starts a process with a Spark session, which has read a small topic when this yields."""
    place = ["--service-url", server.broker_url, "--admin-url", server.web_url]
    settings = [f"--setting={name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "bench.spark_reader", *place, *settings, *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(topic: str) -> None:
            asked.write(f"{NAMESPACE}/{topic} {counts[topic]}\n")
            asked.flush()
            json.loads(answers.readline())

        try:
            ask("spark_small")
            yield lambda topic: measured(server, process.pid, lambda: ask(topic))
            asked.close()
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

        def ask(topic: str) -> None:
            driver.run(f"""
                frame = session.read.format("pulsar").option("service.url", "{server.broker_url}")
                frame = frame.option("admin.url", "{server.web_url}").option("topic", "{NAMESPACE}/{topic}").load()
                frame.write.format("noop").mode("overwrite").save()
            """)

        ask("spark_small")
        yield lambda topic: measured(server, driver.process.pid, lambda: ask(topic))
