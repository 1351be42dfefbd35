"""A Spark session with the published connector, a server and an official client; one for all tests of this folder."""

from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from compat_tests.python.support import contents
from compat_tests.spark.published import Driver, newer

SETTINGS = {"brokerDeleteInactiveTopicsEnabled": "false"}
"""Without this setting a topic without subscriptions would be deleted after a minute, which is less than a test may
take on a busy machine."""

HELPERS = """
import json
from pyspark.sql import functions as F

def options(**more):
    return {{"service.url": "{broker}", "admin.url": "{web}", **more}}

def read(**more):
    return session.read.format("pulsar").options(**options(**more)).load()

def read_stream(**more):
    given = {{"startingOffsets": "earliest", "failOnDataLoss": "true", **more}}
    return session.readStream.format("pulsar").options(**options(**given)).load()

def write(frame, topic):
    frame = frame.withColumn("__topic", F.lit(topic))
    frame.write.format("pulsar").options(**options()).save()

def start(frame, folder, **more):
    writer = frame.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
    return writer.start(folder + "/table")

def texts(frame):
    return sorted(str(row[0]) for row in frame.select(F.col("value").cast("string")).collect())
"""


class Scene:
    """A session with the connector, a server and an official client."""

    def __init__(self, server: Server, client: pulsar.Client, driver: Driver) -> None:
        self.server = server
        self.client = client
        self.driver = driver
        self.admin = Admin(server)
        prepare(driver, server)

    def run(self, code: str) -> Any:
        return self.driver.run(code)

    def topic(self, name: str, count: int, schema: Any = None, **options: Any) -> str:
        """Makes a topic with the values 0 to count-1, as text unless the schema says otherwise."""
        topic = f"persistent://public/default/{name}"
        producer = self.client.create_producer(topic, **({"schema": schema} if schema else {}), **options)
        for number in range(count):
            producer.send_async(f"{number}" if schema else f"{number}".encode(), None)
        producer.flush()
        producer.close()
        return topic

    def partitions(self, topic: str) -> str:
        """Returns the path at which the number of a topic's partitions is read and set."""
        return f"{topic.replace('://', '/', 1)}/partitions"

    def contents(self, topic: str) -> list[Any]:
        return contents(self.client, topic)


def prepare(driver: Driver, server: Server) -> None:
    driver.run(HELPERS.format(broker=server.broker_url, web=server.web_url))


@pytest.fixture(scope="package", params=["3.1.1.4 on pyspark 3.4.4", "newer"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("published")
    chosen = newer() if request.param == "newer" else (None, None)
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
    with Server(folder, settings=SETTINGS) as server, Driver(folder, *chosen) as driver:
        client = pulsar.Client(server.broker_url, logger=logger)
        yield Scene(server, client, driver)
        client.close()
        server.assert_no_errors()
