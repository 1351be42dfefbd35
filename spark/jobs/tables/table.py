"""Tables that take a micro-batch once: their common interface, and the function that opens a table.

The classes of Delta and Iceberg need packages that are only there with the extra `lake`, so each is imported when a
table of its kind is opened.
"""

from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.tables.table_rules import local_folder

TIMESTAMPS_SETTING = "spark.sql.parquet.outputTimestampType"
"""The Spark setting for the type of timestamps in Parquet files. Spark's default is INT96, which other readers take for
nanoseconds without a time zone."""


class Table(Protocol):
    """A table that micro-batches are written to."""

    def schema(self, spark: SparkSession) -> StructType | None:
        """Returns the table's columns, or None when there is no table yet."""

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        """Writes batch `number` of the query `app`, unless the table has it. Returns how many rows were written, or
        None when the table had the batch already."""

    def files(self) -> list[str]:
        """Returns the Parquet files that make up the table now."""

    def compact(self, spark: SparkSession) -> int:
        """Merges small files; returns how many files fewer there are. Raises JobFailed when the table cannot be
        compacted."""


def open_table(spark: SparkSession, kind: str, path: str, name: str, *, by: str, staging: Path) -> Table:
    """Opens a table of the kind `parquet`, `delta` or `iceberg`, to be partitioned by the column `by` unless that is
    empty. `staging` is a folder that executors can write to, too. Raises JobFailed when the path or the name does not
    suit the kind, or when an existing table is partitioned by other columns."""
    spark.conf.set(TIMESTAMPS_SETTING, "TIMESTAMP_MICROS")
    if kind == "delta":
        from magnetar.spark.jobs.tables.delta import DeltaTable

        return DeltaTable(path, by=by, staging=staging)
    if kind == "iceberg":
        from magnetar.spark.jobs.tables.iceberg import IcebergTable

        return IcebergTable(local_folder(path), name, by=by, staging=staging)
    from magnetar.spark.jobs.tables.parquet import ParquetTable

    return ParquetTable(local_folder(path), by=by)
