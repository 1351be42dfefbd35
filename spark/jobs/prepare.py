"""`magnetar spark --prepare`: makes the archive of Java's classes with which a job needs two fifths less CPU to
its first batch.

A small streaming query from a source in Python goes to a Parquet file, which is read again: that uses the classes that
jobs need. At its end Java writes them into the archive.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from magnetar.spark.jobs.class_archive import archive_file, recording_options
from magnetar.spark.jobs.job_session import JAVA_SETTING, QUICK_START, guarded, make_quiet, start_python_sooner
from magnetar.spark.shipping.cluster_rules import PYTHON_VARIABLE

ROWS = 100
END_SECONDS = 300
"""How long Java may take to write the archive on a very busy machine."""


def main(argv: Sequence[str]) -> int:
    return guarded("--prepare", run, argv)


def run(argv: Sequence[str]) -> int:
    """Makes the archive anew, and says where it is. Returns the exit code."""
    if argv:
        print(f"magnetar spark --prepare takes no {argv[0]}", file=sys.stderr)
        return 2
    archive = archive_file()
    if archive is None:
        print("magnetar spark --prepare: no Java is found; set JAVA_HOME or PATH", file=sys.stderr)
        return 1
    print("starting Spark once, to see which classes of Java's it needs …", file=sys.stderr, flush=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, archive.name)
        _record(made, folder)
        if not made.exists():
            print("magnetar spark --prepare: this Java has written no archive of its classes", file=sys.stderr)
            return 1
        made.replace(archive)  # a job never sees a part of it
    megabytes = archive.stat().st_size // 1_000_000
    print(f"{archive}: {megabytes} MB in {time.monotonic() - began:.0f} s; jobs start sooner with it")
    return 0


def _record(archive: Path, folder: str) -> None:
    """Runs the query in a session of its own, and waits until its Java has ended."""
    os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
    start_python_sooner()
    options = " ".join([QUICK_START, *recording_options(archive)])
    builder = make_quiet(SparkSession.builder.master("local[2]")).config(JAVA_SETTING, options)
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        _query(session, folder)
    finally:
        session.stop()
        java = SparkContext._gateway.proc  # type: ignore[union-attr]
        java.stdin.close()  # Java ends when its input does
        java.wait(END_SECONDS)


def _query(session: SparkSession, folder: str) -> None:
    session.dataSource.register(Numbers)

    def batch(frame: DataFrame, number: int) -> None:
        frame.persist()
        frame.where(F.col("n") >= frame.count()).count()
        frame.write.mode("append").parquet(f"{folder}/table")
        frame.unpersist()

    query = session.readStream.format(Numbers.name()).load().writeStream.foreachBatch(batch)
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    session.read.parquet(f"{folder}/table").groupBy(F.col("n") % 2).count().collect()


class Numbers(DataSource):
    """A stream of ROWS numbers."""

    @classmethod
    def name(cls) -> str:
        return "magnetar-numbers"

    def schema(self) -> str:
        return "n bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        return NumbersReader()


class NumbersReader(DataSourceStreamReader):
    """Gives the numbers as one batch with one task."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802, Spark's name
        return {"n": 0}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, int]:  # noqa: N802, Spark's name
        return {"n": ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(None)] if end["n"] > start["n"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": pa.array(range(ROWS), pa.int64())})
