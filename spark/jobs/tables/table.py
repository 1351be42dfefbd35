"""Tables that take a micro-batch once: their common interface, and the function that opens a table.

The classes of Delta and Iceberg need packages that are only there with the extra `lake`, so each is imported when a
table of its kind is opened.
"""

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import local_folder

TIMESTAMPS_SETTING = "spark.sql.parquet.outputTimestampType"
"""The Spark setting for the type of timestamps in Parquet files. Spark's default is INT96, which other readers take for
nanoseconds without a time zone."""


class Table(Protocol):
    """A table that micro-batches are written to."""

    def schema(self) -> StructType | None:
        """Returns the table's columns, or None when there is no table yet."""

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        """Writes batch `number` of the query `app`, unless the table has it. Returns how many rows were written, or
        None when the table had the batch already."""

    def files(self) -> list[str]:
        """Returns the Parquet files that make up the table now, as `rows` takes them."""

    def rows(self, spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
        """Returns columns of the rows in some of the table's files. There has to be at least one file."""

    def count(self) -> int:
        """Returns how many rows the table has, from what it knows of its files."""

    def compact(self, spark: SparkSession) -> int:
        """Merges small files; returns how many files fewer there are. Raises JobFailed when the table cannot be
        compacted."""


def need_table(kind: str, place: Place, name: str) -> None:
    """Looks for a table of the kind `parquet`, `delta` or `iceberg` to which a checkpoint has written. Changes nothing.
    Raises JobFailed when there is none, and StorageFault when the place cannot be reached."""
    if kind == "delta":
        from magnetar.spark.jobs.tables import delta

        is_there = delta.existing(place) is not None
    elif kind == "iceberg":
        from magnetar.spark.jobs.tables.iceberg import is_there as is_iceberg_there

        is_there = is_iceberg_there(place, name)
    elif place.is_local:
        from magnetar.spark.jobs.tables.parquet import OWNER_FILE

        is_there = (local_folder(place.url) / OWNER_FILE).exists()
    else:
        from magnetar.spark.jobs.tables.parquet_objects import BATCHES

        is_there = bool(place.open().names(BATCHES))
    if not is_there:
        raise table_gone(f"{place.url}, {name}" if kind == "iceberg" else place.url)


def table_gone(where: str) -> JobFailed:
    """Returns the error about a table that is missing although the checkpoint has written to it."""
    return JobFailed(
        f"there is no table in {where}, but the checkpoint goes on behind messages that were written there: put the "
        "table back, or begin with a new --checkpoint"
    )


def open_table(spark: SparkSession, kind: str, place: Place, name: str, *, by: str) -> Table:
    """Opens a table of the kind `parquet`, `delta` or `iceberg`, to be partitioned by the column `by` unless that is
    empty. Raises JobFailed when the name does not suit the kind, or when an existing table is partitioned by other
    columns, and StorageFault when the place cannot be reached."""
    spark.conf.set(TIMESTAMPS_SETTING, "TIMESTAMP_MICROS")
    if kind == "delta":
        from magnetar.spark.jobs.tables.delta import DeltaTable

        return DeltaTable(place, by=by)
    if kind == "iceberg":
        from magnetar.spark.jobs.tables.iceberg import IcebergTable

        return IcebergTable(place, name, by=by)
    if not place.is_local:
        from magnetar.spark.jobs.tables.parquet_objects import ParquetObjects

        return ParquetObjects(place, by=by)
    from magnetar.spark.jobs.tables.parquet import ParquetTable

    return ParquetTable(local_folder(place.url), by=by)
