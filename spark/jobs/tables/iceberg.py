"""Iceberg tables, written by pyiceberg, with a catalog in a file beside the data. The number of each query's last batch
is a property of the table, and is committed with the batch. For people who look at the table, its snapshots name the
batch, too."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as pds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as PyIcebergTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlalchemy.exc import DBAPIError

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.tables.staging import spark_schema, staged, streamed
from magnetar.spark.jobs.tables.table_rules import check_partitioning

warnings.filterwarnings("ignore", "Delete operation did not match any records")  # usual for new keys

SLICE_BYTES = 256 * 1024 * 1024
"""At most this much of a batch is in the driver's memory at a time."""


def open_catalog(folder: Path) -> SqlCatalog:
    """Opens the catalog of a warehouse folder, or creates it. Raises JobFailed, which names the catalog's file, when
    that file cannot be written or is damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "catalog.db"
    try:
        return SqlCatalog("magnetar", uri=f"sqlite:///{file}", warehouse=f"file://{folder}")
    except DBAPIError as error:
        raise JobFailed(f"{file}: {error.orig}") from error


class IcebergTable:
    """An Iceberg table; see `Table` for what the methods do."""

    def __init__(self, folder: Path, name: str, *, by: str, staging: Path) -> None:
        """Opens the catalog and the table, if there is one. Raises JobFailed when the name has no namespace, or when a
        table with data is not partitioned by `by`."""
        if "." not in name:
            raise JobFailed(f"--table {name}: expected NAMESPACE.NAME")
        self._catalog = open_catalog(folder)
        self._name = name
        self._by = by
        self._staging = staging
        found = self._existing()
        if found is not None and found.current_snapshot() is not None:
            check_partitioning(name, ",".join(field.name for field in found.spec().fields), by)

    def _existing(self) -> PyIcebergTable | None:
        return self._catalog.load_table(self._name) if self._catalog.table_exists(self._name) else None

    def schema(self, spark: SparkSession) -> StructType | None:
        found = self._existing()
        return None if found is None else spark_schema(spark, found.schema().as_arrow(), self._staging)

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        found, batch = self._existing(), f"magnetar.batch.{app}"
        if found is not None and int(found.properties.get(batch, "-1")) >= number:
            return None
        with staged(rows, self._staging) as data:
            if found is None:
                self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
                found = self._catalog.create_table_if_not_exists(self._name, schema=data.schema)
            with found.transaction() as change:
                if self._by and not found.spec().fields:
                    with change.update_spec() as spec:
                        spec.add_identity(self._by)
                with change.update_schema() as columns:
                    columns.union_by_name(data.schema)
                for part in slices(data):
                    change.append(part, {"magnetar.query": app, "magnetar.batch": str(number)})
                change.set_properties({batch: str(number)})
            return int(data.count_rows())

    def files(self) -> list[str]:
        found = self._existing()
        return [] if found is None else data_files(found)

    def compact(self, spark: SparkSession) -> int:
        raise JobFailed("pyiceberg cannot rewrite data files: leave compaction to the engine that reads the table")


def data_files(table: PyIcebergTable) -> list[str]:
    """Returns the paths of a table's files."""
    return [unquote(urlsplit(task.file.file_path).path) for task in table.scan().plan_files()]


def slices(
    data: pds.Dataset, columns: list[str] | None = None, kept: pds.Expression | None = None
) -> Iterator[pa.Table]:
    """Yields the rows in Arrow tables of about SLICE_BYTES."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in streamed(data, columns, kept):
        if batch.num_rows:
            batches.append(batch)
            size += batch.nbytes
        if size >= SLICE_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)
