"""Iceberg tables, committed by pyiceberg. The executors write the data files. The number of each query's last batch is
a property of the table, and is committed with the batch. For people who look at the table, its snapshots name the
batch, too."""

import warnings
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as PyIcebergTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import is_local, local_folder
from magnetar.spark.jobs.tables.iceberg_catalog import open_catalog
from magnetar.spark.jobs.tables.parquet_files import WrittenFile, read_files, spark_schema, union_of, write_files
from magnetar.spark.jobs.tables.table_rules import CATALOG_FILE, check_partitioning

warnings.filterwarnings("ignore", "Delete operation did not match any records")  # usual for new keys

COMMITS_MAX = 10
"""So often a batch is offered to a table to which others write at the same time."""


class IcebergTable:
    """An Iceberg table; see `Table` for what the methods do."""

    def __init__(self, warehouse: Place, name: str, *, by: str) -> None:
        """Opens the catalog and the table, if there is one. Raises JobFailed when the name has no namespace, or when a
        table with data is not partitioned by `by`."""
        check_name(name)
        self._warehouse = warehouse
        self._catalog = open_catalog(warehouse)
        self._name = name
        self._by = by
        found = self._existing()
        if found is not None and found.current_snapshot() is not None:
            check_partitioning(name, ",".join(field.name for field in found.spec().fields), by)

    def _existing(self) -> PyIcebergTable | None:
        return existing(self._catalog, self._name)

    def schema(self) -> StructType | None:
        found = self._existing()
        return None if found is None else spark_schema(found.schema().as_arrow())

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        if _has(self._existing(), app, number):
            return None
        files = write_files(rows, self._warehouse, f"{self._name.replace('.', '/')}/data", by=self._by, keep_by=True)
        if not files:
            return 0
        for _ in range(COMMITS_MAX):
            found = created(self._catalog, self._name, union_of(files))
            if _has(found, app, number):
                return None
            try:
                self._commit(found, files, app, number)
            except CommitFailedException:
                continue  # another query wrote to the table in this moment
            return sum(file.rows for file in files)
        raise JobFailed(f"{self._name}: others write to the table all the time; batch {number} did not get in")

    def _commit(self, found: PyIcebergTable, files: Sequence[WrittenFile], app: str, number: int) -> None:
        paths = [url_of(self._warehouse, file.path) for file in files]
        with found.transaction() as change:
            if self._by and not found.spec().fields:
                with change.update_spec() as spec:
                    spec.add_identity(self._by)
            with change.update_schema() as columns:
                columns.union_by_name(union_of(files))
            named = {"magnetar.query": app, "magnetar.batch": str(number)}
            change.add_files(paths, named, check_duplicate_files=False)  # their names are new ones
            change.set_properties({_property(app): str(number)})

    def files(self) -> list[str]:
        found = self._existing()
        return [] if found is None else data_files(found, self._warehouse)

    def rows(self, spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
        found = self._existing()
        assert found is not None
        schema = found.schema().as_arrow()
        return read_files(spark, self._warehouse, files, pa.schema([schema.field(name) for name in columns]))

    def count(self) -> int:
        found = self._existing()
        return 0 if found is None else sum(task.file.record_count for task in found.scan().plan_files())

    def compact(self, spark: SparkSession) -> int:
        raise JobFailed("pyiceberg cannot rewrite data files: leave compaction to the engine that reads the table")


def is_there(warehouse: Place, name: str) -> bool:
    """Returns whether a warehouse has a table. Unlike `open_catalog` it creates nothing. Raises JobFailed as
    `check_name` and `open_catalog` do."""
    check_name(name)
    if warehouse.is_local and not (local_folder(warehouse.url) / CATALOG_FILE).exists():
        return False
    return bool(open_catalog(warehouse).table_exists(name))


def check_name(name: str) -> None:
    """Raises JobFailed when the name of a table has no namespace."""
    if "." not in name:
        raise JobFailed(f"--table {name}: expected NAMESPACE.NAME")


def existing(catalog: Catalog, name: str) -> PyIcebergTable | None:
    return catalog.load_table(name) if catalog.table_exists(name) else None


def created(catalog: Catalog, name: str, columns: pa.Schema) -> PyIcebergTable:
    """Returns a table, which is created with these columns if there is none."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    return catalog.create_table_if_not_exists(name, schema=columns)


def _property(app: str) -> str:
    return f"magnetar.batch.{app}"


def _has(found: PyIcebergTable | None, app: str, number: int) -> bool:
    return found is not None and int(found.properties.get(_property(app), "-1")) >= number


def url_of(warehouse: Place, name: str) -> str:
    """Returns the URL by which a table knows a file of its warehouse."""
    return f"file://{local_folder(warehouse.url)}/{name}" if warehouse.is_local else warehouse.below(name).url


def data_files(table: PyIcebergTable, warehouse: Place) -> list[str]:
    """Returns the names of a table's files below the warehouse. Raises JobFailed when the table has files elsewhere."""
    root = url_of(warehouse, "")
    return [_name_below(root, task.file.file_path) for task in table.scan().plan_files()]


def _name_below(root: str, url: str) -> str:
    if not url.startswith(root):
        raise JobFailed(f"{url} is a file of the table, but not in {root}")
    name = url.removeprefix(root)
    return unquote(name) if is_local(root) and "%" in urlsplit(root).path else name


def slices(batches: pa.RecordBatchReader, size_max: int) -> Iterator[pa.Table]:
    """Yields the rows in Arrow tables of about `size_max` bytes."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= size_max:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
