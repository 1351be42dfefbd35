"""Passes rows to tables that Spark cannot write without jars.

Delta and Iceberg are written by the driver through their Python packages. Executors put the rows into Parquet files
first, which the driver streams from: its memory never holds a batch, only a part of it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

SCAN_ROWS = 16_384


def spark_schema(spark: SparkSession, schema: pa.Schema, staging: Path) -> StructType:
    """Returns an Arrow schema as Spark's. Spark reads it from a Parquet file without rows, so that there is no table of
    types to keep."""
    staging.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(schema.empty_table(), staging / "schema.parquet")
        return spark.read.parquet(str(staging)).schema
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def staged(rows: DataFrame, folder: Path) -> Iterator[pds.Dataset]:
    """A context manager: gives the rows as a dataset of Parquet files, which are removed when the block ends. All of
    the dataset's columns are nullable, because later batches may have nulls in them."""
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
    """Returns the rows as a stream that reads only a little ahead, so that the driver holds a part of them at a
    time."""
    scanner = data.scanner(columns=columns, filter=kept, batch_size=SCAN_ROWS, batch_readahead=2, fragment_readahead=1)
    return scanner.to_reader()
