"""Reads topics with the Python data source and discards the rows. A process of its own: stdin names a topic and the
number of its messages on each line, and stdout gets a line when it is read. All columns are read."""

import argparse
import json
import os
import sys
import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.spark_bound import PreparedSource
from magnetar.spark.source import PulsarDataSource

STREAM_BATCH = 200_016
"""A fifth of the rows of a whole measurement, so that no sixth batch of some rows is left."""
STREAM_SECONDS = 300


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("service-url", "admin-url"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of the session")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--prepared", action="store_true", help="columns are made beforehand (bench.spark_bound)")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(arguments.master).config("spark.ui.enabled", "false")
    for setting in arguments.setting:
        builder = builder.config(*setting.split("=", 1))
    session = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.dataSource.register(PreparedSource if arguments.prepared else PulsarDataSource)
    place = {"service.url": arguments.service_url, "admin.url": arguments.admin_url}
    for line in sys.stdin:
        topic, messages = line.split()
        options = {**place, "topic": topic}
        if arguments.stream:
            stream(session, options, int(messages))
        else:
            discard(session, options)
        print(json.dumps(topic), flush=True)
    session.stop()


def discard(session: SparkSession, options: dict[str, str]) -> None:
    """Reads everything; Spark's noop sink evaluates every column of every row."""
    frame = session.read.format("pulsar").options(**options).load()
    frame.write.format("noop").mode("overwrite").save()


def stream(session: SparkSession, options: dict[str, str], messages: int) -> None:
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(STREAM_BATCH), "minPartitions": "2"}
    frame = session.readStream.format("pulsar").options(**options, **limits).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        rows, deadline = 0, time.monotonic() + STREAM_SECONDS
        while rows < messages and time.monotonic() < deadline:
            # runs at least one batch, because Spark asks a Python source for its end only once
            query.processAllAvailable()
            rows = rows_of(query)
        query.stop()
    if rows < messages:
        raise SystemExit(f"the stream brought {rows} of {messages} rows")


def rows_of(query: StreamingQuery) -> int:
    return sum(int(step["numInputRows"]) for step in query.recentProgress)


if __name__ == "__main__":
    main()
