"""Passes rows to tables that Spark cannot write without jars.

Delta and Iceberg are written by the driver through their Python packages. The executors first put the rows into Parquet
files. The driver streams the rows from these files, so that its memory holds only a part of a batch.
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
    """Returns the Spark schema that corresponds to an Arrow schema. Spark reads the schema from a Parquet file without
    rows, so that this module needs no table of types."""
    staging.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(schema.empty_table(), staging / "schema.parquet")
        return spark.read.parquet(str(staging)).schema
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def staged(rows: DataFrame, folder: Path) -> Iterator[pds.Dataset]:
    """Gives the rows, as a context manager, in a dataset of Parquet files, which are removed when the block ends. All
    columns of the dataset are nullable, because later batches may have nulls in them."""
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
    """Returns the rows as a stream that reads only a little ahead, so that the driver holds only a part of the rows at
    a time."""
    scanner = data.scanner(columns=columns, filter=kept, batch_size=SCAN_ROWS, batch_readahead=2, fragment_readahead=1)
    return scanner.to_reader()
