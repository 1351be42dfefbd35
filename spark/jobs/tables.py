"""Tables that take a micro-batch once: Parquet, Delta, Iceberg.

Delta and Iceberg are written by the driver through their Python packages, which need no jar: a batch passes through its
memory, so batches have to be bounded (`--max-bytes`).
"""

import json
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark.jobs.common import JobFailed

OWNER_FILE = "_magnetar_ingest.json"
PERIOD_COLUMNS = ("day", "hour")


class Table(Protocol):
    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        """Batch `number` of the query `app`, once; returns the rows written, None when they were written before."""

    def frame(self, spark: SparkSession, columns: list[str]) -> DataFrame | None:
        """All rows, of `columns` (all where there are none); None when there is no table yet."""


def open_table(spark: SparkSession, kind: str, path: str, name: str, *, evolve: bool) -> Table:
    if kind == "parquet":
        return ParquetTable(path)
    return DeltaTable(path, evolve=evolve) if kind == "delta" else IcebergTable(path, name, evolve=evolve)


def partition_columns(names: list[str]) -> list[str]:
    return [name for name in PERIOD_COLUMNS if name in names]


class ParquetTable:
    """A folder `batch=N` a batch, overwritten when the batch is repeated: Spark's writer shows a folder's files only
    when they are complete."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        self._own(app)
        folder = self._path / f"batch={number:08d}"
        rows.write.partitionBy(*partition_columns(rows.columns)).mode("overwrite").parquet(str(folder))
        return rows.sparkSession.read.parquet(str(folder)).count() if any(folder.rglob("*.parquet")) else 0

    def _own(self, app: str) -> None:
        """Raises JobFailed when the folder belongs to another checkpoint: its batches have the same numbers."""
        owner = self._path / OWNER_FILE
        if not owner.exists():
            self._path.mkdir(parents=True, exist_ok=True)
            owner.write_text(json.dumps({"query": app}))
        elif json.loads(owner.read_text())["query"] != app:
            raise JobFailed(f"{self._path} was written with another checkpoint; use that one, or another folder")

    def frame(self, spark: SparkSession, columns: list[str]) -> DataFrame | None:
        if not any(self._path.glob("batch=*/**/*.parquet")):
            return None
        frame = spark.read.option("mergeSchema", "true").parquet(str(self._path))
        return frame.select(*columns) if columns else frame


class DeltaTable:
    """The query's id and the batch's number are a Delta transaction: a number that is not higher is refused."""

    def __init__(self, path: str, *, evolve: bool) -> None:
        self._path = path
        self._evolve = evolve

    def _existing(self) -> Any:
        import deltalake

        return deltalake.DeltaTable(self._path) if deltalake.DeltaTable.is_deltatable(self._path) else None

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        import deltalake

        existing = self._existing()
        if existing is not None:
            done = existing.transaction_version(app)
            if done is not None and done >= number:
                return None
        arrow = collected(rows)
        deltalake.write_deltalake(
            self._path,
            arrow,
            mode="append",
            partition_by=partition_columns(rows.columns) or None,
            schema_mode="merge" if self._evolve else None,
            commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction(app, number)]),
        )
        return int(arrow.num_rows)

    def frame(self, spark: SparkSession, columns: list[str]) -> DataFrame | None:
        existing = self._existing()
        if existing is None:
            return None
        return from_arrow(spark, existing.to_pyarrow_table(columns=columns or None))


class IcebergTable:
    """A catalog in a file beside the data; the query's id and the batch's number are properties of a snapshot."""

    def __init__(self, path: str, name: str, *, evolve: bool) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        folder = Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        self._catalog = SqlCatalog("magnetar", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self._name = name
        self._evolve = evolve

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        arrow = collected(rows)
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        table = self._catalog.create_table_if_not_exists(self._name, schema=arrow.schema)
        if any(_batch_of(snapshot, app) >= number for snapshot in table.snapshots()):
            return None
        if self._evolve:
            with table.update_schema() as update:
                update.union_by_name(arrow.schema)
        table.append(arrow, snapshot_properties={"magnetar.query": app, "magnetar.batch": str(number)})
        return int(arrow.num_rows)

    def frame(self, spark: SparkSession, columns: list[str]) -> DataFrame | None:
        if not self._catalog.table_exists(self._name):
            return None
        scan = self._catalog.load_table(self._name).scan(selected_fields=tuple(columns) or ("*",))
        return from_arrow(spark, scan.to_arrow())


def _batch_of(snapshot: Any, app: str) -> int:
    summary = snapshot.summary
    if summary is None or summary["magnetar.query"] != app:
        return -1
    return int(summary["magnetar.batch"])


def collected(rows: DataFrame) -> pa.Table:
    """The rows in buffers of Arrow's own making: Java leaves out the offsets of empty columns (the names of a map whose
    rows are all empty), and delta-rs panics on that."""
    table = rows.toArrow().replace_schema_metadata(None)
    return table.take(pa.array(range(table.num_rows), pa.int64()))


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)
