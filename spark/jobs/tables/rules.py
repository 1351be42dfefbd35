"""What all tables have in common: how they are opened, which columns they take, how rows come to those that no Spark
without jars can write.

Delta and Iceberg are written by the driver through their Python packages. Executors put the rows into Parquet files
first, which the driver streams from: its memory never holds a batch, only a part of it.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.common import JobFailed

TIMESTAMPS_SETTING = "spark.sql.parquet.outputTimestampType"
"""Spark's default is INT96, which other readers take for nanoseconds without a time zone."""
SCAN_ROWS = 16_384


class Table(Protocol):
    def schema(self, spark: SparkSession) -> StructType | None:
        """Its columns; None when there is no table yet."""

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        """Batch `number` of the query `app`, once; returns the rows written, None when they were written before."""

    def files(self) -> list[str]:
        """The Parquet files that make up the table now."""

    def compact(self, spark: SparkSession) -> int:
        """Merges small files; returns how many are gone."""


def open_table(spark: SparkSession, kind: str, path: str, name: str, *, by: str, staging: Path) -> Table:
    """`by`: the column to partition by, or empty. `staging`: a folder that executors can write to, too."""
    spark.conf.set(TIMESTAMPS_SETTING, "TIMESTAMP_MICROS")
    if kind == "delta":
        from magnetar.spark.jobs.tables.delta import DeltaTable

        return DeltaTable(path, by=by, staging=staging)
    if kind == "iceberg":
        from magnetar.spark.jobs.tables.iceberg import IcebergTable

        return IcebergTable(local_folder(path), name, by=by, staging=staging)
    from magnetar.spark.jobs.tables.parquet import ParquetTable

    return ParquetTable(local_folder(path), by=by)


def is_local(path: str) -> bool:
    """A path or a `file:` URL; a colon may be in a path."""
    return "://" not in path or path.startswith("file:")


def local_folder(path: str) -> Path:
    """Raises JobFailed for what cannot be renamed in one step."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise JobFailed(f"--path {path}: only delta can be elsewhere than in a local or mounted folder")
    return Path(unquote(parts.path) if parts.scheme else path).absolute()


def check_columns(table: StructType | None, rows: StructType, *, evolve: bool) -> None:
    """Raises JobFailed, which names the columns, when the rows do not fit. Columns that the rows lack become null."""
    if table is None:
        return
    known = {field.name: _kind(field.dataType.simpleString()) for field in table.fields}
    added = [field.name for field in rows.fields if field.name not in known]
    if added and not evolve:
        raise JobFailed(
            f"the table has no column {', '.join(added)}, the topic has: --schema evolve takes new columns in, "
            f"--columns {','.join(name for name in rows.names if not name.startswith('__') and name in known)} "
            "leaves them out"
        )
    for field in rows.fields:
        kind = _kind(field.dataType.simpleString())
        if known.get(field.name, kind) != kind:
            raise JobFailed(
                f"column {field.name} is {known[field.name]} in the table and {kind} in the topic: "
                "a table's types stay; use another table"
            )


def _kind(text: str) -> str:
    """Iceberg has no integers of less than 32 bits."""
    return re.sub(r"\b(tinyint|smallint)\b", "int", text)


def check_partitioning(where: object, found: str, wanted: str) -> None:
    if found != wanted:
        raise JobFailed(
            f"{where} is partitioned by {found or 'nothing'}, --partition-by asks for {wanted or 'nothing'}"
        )


def spark_schema(spark: SparkSession, schema: pa.Schema, staging: Path) -> StructType:
    """By way of a file without rows."""
    staging.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(schema.empty_table(), staging / "schema.parquet")
        return spark.read.parquet(str(staging)).schema
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def staged(rows: DataFrame, folder: Path) -> Iterator[pds.Dataset]:
    """The rows as files that are gone afterwards. All columns may be null, as they may later."""
    rows.write.mode("overwrite").parquet(str(folder))
    try:
        found = pds.dataset(str(folder), format="parquet").schema
        schema = pa.schema([each.with_nullable(True).remove_metadata() for each in found])
        yield pds.dataset(str(folder), schema=schema, format="parquet")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def streamed(
    data: pds.Dataset, columns: list[str] | None = None, kept: pds.Expression | None = None
) -> pa.RecordBatchReader:
    """Reads a little ahead only."""
    scanner = data.scanner(columns=columns, filter=kept, batch_size=SCAN_ROWS, batch_readahead=2, fragment_readahead=1)
    return scanner.to_reader()
