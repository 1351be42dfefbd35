"""`--source connector`: a job reads through the published connector, whose options differ a little from those of this
project's data source. The connector's jar comes by `spark-submit --jars`, see docs/spark/CONNECTORS.md. This module
runs on pyspark 3.4.
"""

import contextlib
import fcntl
import json
import re
import sys
import termios
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from magnetar.spark.source.options import EARLIEST, LATEST, BadOption
from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, bound_of_value, wire_id
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAIN_SECONDS = 2.0
PYTHON_SOURCE_NEEDS = (4, 1)
NO_JAR = re.compile(r"(Failed to find( the)? data source|DATA_SOURCE_NOT_FOUND)[^\n]*\bpulsar\b")
NO_JAR_SENTENCE = (
    "--source connector: Spark has no connector; give it the jar, spark-submit --jars pulsar-spark-connector_….jar "
    "(docs/spark/CONNECTORS.md says which)"
)


def version_of(text: str) -> tuple[int, int]:
    """Returns major and minor of pyspark's version."""
    major, minor = re.findall(r"\d+", text)[:2]
    return int(major), int(minor)


def check_versions(source: str, pyspark: str, needs: str = "") -> None:
    """Raises BadOption when this pyspark is too old. `needs` names the part of the job that needs pyspark 4.0, such as
    a format, and is empty when no part does."""
    if source == "python" and version_of(pyspark) < PYTHON_SOURCE_NEEDS:
        raise BadOption(
            f"this is pyspark {pyspark}, and the data source in Python needs 4.1: install that, or let lake_ingest, "
            "window_agg and snapshot_table read with --source connector, see docs/spark/CONNECTORS.md"
        )
    if needs and version_of(pyspark) < (4, 0):
        raise BadOption(f"{needs} needs pyspark 4.0 or newer, this is {pyspark}")


def connector_options(given: Mapping[str, str]) -> dict[str, str]:
    """Returns a job's source options as the connector takes them. Raises BadOption for an option that the connector
    does not have."""
    options = dict(given)
    if not options.get("admin.url"):
        raise BadOption("--source connector needs --admin-url: the connector asks there for schemas and last messages")
    if "maxOffsetsPerTrigger" in options:
        raise BadOption("--max-messages: the connector has no such limit; from version 3.2 on it has --max-bytes")
    if "topic" in options:
        options["topic"] = TopicName.parse(options["topic"]).full
    if "topics" in options:
        names = [name.strip() for name in options["topics"].split(",") if name.strip()]
        options["topics"] = ",".join(TopicName.parse(name).full for name in names)
    start = options.get("startingOffsets", "")
    if start.lower() not in ("", EARLIEST, LATEST):
        options["startingOffsets"] = _signed(start)
    return options


def _signed(text: str) -> str:
    """Returns a JSON map of ids with each id as the signed bytes of MessageIdData. In `text` an id may have the form of
    such bytes or of `ledger:entry`."""
    ids = json.loads(text)
    bytes_of = {}
    for topic, value in ids.items():
        if isinstance(value, str):
            bound = bound_of_value(value, TopicName.parse(topic).partition_index)
            message_id = wire_id(bound)
            if bound.batch_index != WHOLE_ENTRY:
                message_id.batch_index = bound.batch_index
            value = [byte - 256 if byte > 127 else byte for byte in message_id.SerializeToString()]
        bytes_of[TopicName.parse(topic).full] = value
    return json.dumps(bytes_of)


def end_java(session: "SparkSession", code: int) -> None:
    """Ends the Java program of `spark-submit` with the job's exit code, because threads of the connector's clients
    would keep Java alive for ever. The job's output goes through pipes that Java reads, so this function first waits
    until the pipes are empty."""
    java = session._jvm
    assert java is not None
    if session.sparkContext.getConf().get("spark.submit.deployMode", "client") != "client":
        return  # in cluster mode Spark ends the program
    session.stop()
    sys.stdout.flush()
    sys.stderr.flush()
    deadline = time.monotonic() + DRAIN_SECONDS
    while _unread(sys.stdout.fileno()) and time.monotonic() < deadline:
        time.sleep(DRAIN_SECONDS / 20)
    time.sleep(DRAIN_SECONDS / 20)
    with contextlib.suppress(Py4JError, OSError):  # Java exits without an answer
        java.java.lang.System.exit(code)


def _unread(pipe: int) -> int:
    """Returns how many bytes were written to a pipe and not read yet; 0 when the descriptor is no pipe."""
    try:
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)
    except OSError:
        return 0
