"""One Spark session for all test modules, and a topic's content as an independent client sees it."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from compat_tests.python.support import contents
from magnetar.spark.shipping.python_path import with_quick_start
from magnetar.spark.source import PulsarDataSource
from magnetar.spark.source.stream_reader import PulsarStreamReader

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.log.level": "FATAL",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

SERVER_SETTINGS = {"brokerDeduplicationEnabled": "true", "brokerDeleteInactiveTopicsEnabled": "false"}
"""Without these settings a topic without subscriptions would be deleted after a minute, which is less than a test may
take on a busy machine."""


def make_session() -> Iterator[SparkSession]:
    """Gives the session of a test module. Java goes on for the next module, which finds no query, cache or setting of
    this one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = with_quick_start(os.environ.get("PYTHONPATH", ""), sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(PulsarDataSource)
    before = dict(session.conf.getAll)
    yield session
    if SparkSession.getActiveSession() is None:
        return  # a test stopped the session
    for query in session.streams.active:
        query.stop()
    session.catalog.clearCache()
    for name, value in dict(session.conf.getAll).items():
        if name not in before:
            session.conf.unset(name)
        elif value != before[name]:
            session.conf.set(name, before[name])


class Scene:
    """A server, an official client and a session."""

    def __init__(self, session: SparkSession, server: Server, client: pulsar.Client) -> None:
        self.session = session
        self.server = server
        self.client = client
        self.admin = Admin(server)

    def options(self, topic: str, **more: object) -> dict[str, str]:
        given = {"service.url": self.server.broker_url, "admin.url": self.server.web_url, "topic": topic}
        return {**given, **{name.replace("_", "."): str(value) for name, value in more.items()}}

    def read(self, topic: str, **options: object) -> DataFrame:
        return self.session.read.format("pulsar").options(**self.options(topic, **options)).load()

    def read_stream(self, topic: str, **options: object) -> DataFrame:
        given = {"startingOffsets": "earliest", **options}
        return self.session.readStream.format("pulsar").options(**self.options(topic, **given)).load()

    def to_parquet(self, frame: DataFrame, folder: Path) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        return writer.start(str(folder / "table"))

    def table(self, folder: Path) -> DataFrame:
        return self.session.read.parquet(str(folder / "table"))

    def contents(self, topic: str) -> list[Any]:
        """Returns all messages of a topic, partition after partition, as the official client reads them."""
        return contents(self.client, topic)


def run_until(query: StreamingQuery, done: Callable[[], bool], seconds: float = 180) -> None:
    """Waits until `done`. Raises AssertionError with the query's error when it fails, and TimeoutError after
    `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s; last progress {query.lastProgress}")
        query.awaitTermination(1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("spark")
    sessions = make_session()
    with Server(folder, settings=SERVER_SETTINGS) as server:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
        client = pulsar.Client(server.broker_url, logger=logger)
        yield Scene(next(sessions), server, client)
        client.close()
        server.assert_no_errors()
    next(sessions, None)


def produce(scene: Scene, topic: str, count: int, first: int = 0, **options: Any) -> None:
    producer = scene.client.create_producer(topic, **options)
    for number in range(first, first + count):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


def backlog(scene: Scene, topic: str, subscription: str) -> int:
    stats = scene.admin.get(f"{topic.replace('://', '/')}/stats")
    return int(stats["subscriptions"][subscription]["msgBacklog"])


def stream(scene: Scene, topic: str, **options: object) -> PulsarStreamReader:
    """Returns the reader of a streaming query, which the test calls as Spark does."""
    source = PulsarDataSource(scene.options(topic, **options))
    reader = source.streamReader(source.schema())
    assert isinstance(reader, PulsarStreamReader)
    return reader


def values(reader: PulsarStreamReader, tasks: Any) -> list[int]:
    """Reads all tasks, and returns their values as numbers."""
    return [int(value) for task in tasks for batch in reader.read(task) for value in batch.column("value").to_pylist()]
