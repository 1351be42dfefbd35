"""Where the latest rows are kept: versions of a Parquet folder, a Delta table, an Iceberg table.

Beside the rows a table remembers its deleted keys with what deleted them, so that an older message which comes again,
or late, brings nothing back. Applying the same changes twice changes nothing: a repeated batch needs no number.
"""

import json
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as pds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.snapshot.changes import DELETED, KEY, LSN, ORIGIN
from magnetar.spark.jobs.tables.parquet import replace_text
from magnetar.spark.jobs.tables.staging import spark_schema, staged, streamed
from magnetar.spark.jobs.tables.table import TIMESTAMPS_SETTING
from magnetar.spark.jobs.tables.table_rules import local_folder

LATEST_FILE = "_latest.json"
VERSIONS_KEPT = 3
REMEMBERED = [KEY, *ORIGIN, LSN]
"""The columns of deleted keys; LSN only where changes are ordered by it."""


class Snapshot(Protocol):
    def live(self) -> DataFrame | None:
        """The rows; None when there is no table yet."""

    def deleted(self) -> DataFrame | None:
        """The keys whose delete is done, in the columns REMEMBERED."""

    def apply(self, changes: DataFrame) -> None:
        """Changes of different keys, each younger than what the table knows of its key."""

    def forget(self, hours: float) -> None:
        """Deleted keys and versions that are older."""


def open_snapshot(spark: SparkSession, kind: str, path: str, name: str, *, staging: Path) -> Snapshot:
    """Raises JobFailed when the folder holds a table of another kind."""
    spark.conf.set(TIMESTAMPS_SETTING, "TIMESTAMP_MICROS")
    if "://" not in path:
        marks = {"parquet-overwrite": LATEST_FILE, "delta": "_delta_log", "iceberg": "catalog.db"}
        for other, mark in marks.items():
            if other != kind and (Path(path) / mark).exists():
                raise JobFailed(f"{path} was written with --merge {other}")
    if kind == "delta":
        return DeltaSnapshot(spark, path, staging)
    if kind == "iceberg":
        return IcebergSnapshot(spark, local_folder(path), name, staging)
    return ParquetVersions(spark, local_folder(path))


def rows_of(changes: DataFrame) -> DataFrame:
    return changes.where(~F.col(DELETED)).drop(DELETED)


def keys_of(changes: DataFrame) -> DataFrame:
    return changes.where(DELETED).select(*(name for name in REMEMBERED if name in changes.columns))


def taken_out(deleted: DataFrame | None, live: DataFrame | None) -> DataFrame | None:
    """Of the remembered keys those that have no row any more. A kill between the transactions of the two tables leaves
    a key in both: its delete has to be done when it comes again, so it does not count as known."""
    if deleted is None or live is None:
        return deleted
    return deleted.join(live.select(KEY), KEY, "left_anti")


class ParquetVersions:
    """A folder `version=N` whenever something changes, complete when `_latest.json` names it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def _number(self) -> int:
        pointer = self._folder / LATEST_FILE
        return int(json.loads(pointer.read_text())["version"]) if pointer.exists() else -1

    def _rows(self, number: int) -> Path:
        return self._folder / f"version={number:08d}"

    def _keys(self, number: int) -> Path:
        return self._folder / f"_deleted-{number:08d}"

    def live(self) -> DataFrame | None:
        return self._read(self._rows(self._number()))

    def deleted(self) -> DataFrame | None:
        return self._read(self._keys(self._number()))

    def _read(self, folder: Path) -> DataFrame | None:
        """Raises JobFailed when it should be there and is not."""
        if self._number() < 0:
            return None
        if not folder.is_dir():
            raise JobFailed(f"{folder} is gone, and {LATEST_FILE} names it: the table is not whole")
        return self._spark.read.parquet(str(folder))

    def apply(self, changes: DataFrame) -> None:
        changed = changes.select(KEY)
        rows, keys = rows_of(changes), keys_of(changes)
        live, deleted = self.live(), self.deleted()
        if live is not None and deleted is not None:
            rows = live.join(changed, KEY, "left_anti").unionByName(rows, allowMissingColumns=True)
            keys = deleted.join(changed, KEY, "left_anti").unionByName(keys, allowMissingColumns=True)
        self._write(rows, keys)

    def _write(self, rows: DataFrame, keys: DataFrame) -> None:
        number = self._number() + 1
        rows.write.mode("overwrite").parquet(str(self._rows(number)))
        keys.write.mode("overwrite").parquet(str(self._keys(number)))
        replace_text(self._folder / LATEST_FILE, json.dumps({"version": number}))
        for folder in (self._rows(number - VERSIONS_KEPT), self._keys(number - VERSIONS_KEPT)):
            shutil.rmtree(folder, ignore_errors=True)

    def forget(self, hours: float) -> None:
        """Of versions the three newest stay anyway, and no others."""
        live, deleted = self.live(), self.deleted()
        if live is not None and deleted is not None:
            self._write(live, deleted.where(F.col("__publishTime") >= F.lit(oldest(hours))))


class DeltaSnapshot:
    """A merge is a transaction of each of two tables: that of the deleted keys is `PATH_deleted`, and goes first."""

    def __init__(self, spark: SparkSession, path: str, staging: Path) -> None:
        self._spark = spark
        self._path = path.rstrip("/")
        self._staging = staging

    def live(self) -> DataFrame | None:
        return self._read(self._path)

    def deleted(self) -> DataFrame | None:
        return taken_out(self._read(f"{self._path}_deleted"), self.live())

    def _read(self, path: str) -> DataFrame | None:
        import deltalake

        from magnetar.spark.jobs.tables.delta import data_files

        if not deltalake.DeltaTable.is_deltatable(path):
            return None
        table = deltalake.DeltaTable(path)
        files = data_files(table, path)
        if files:
            return self._spark.read.option("mergeSchema", "true").parquet(*files)
        columns = spark_schema(self._spark, pa.schema(table.schema().to_arrow()), self._staging)
        return self._spark.createDataFrame([], columns)

    def apply(self, changes: DataFrame) -> None:
        keys = [*keys_of(changes).columns, DELETED]
        with staged(changes, self._staging) as data:
            self._merge(f"{self._path}_deleted", data, keys, gone=f"not s.{DELETED}")
            self._merge(self._path, data, data.schema.names, gone=f"s.{DELETED}")

    def _merge(self, path: str, data: pds.Dataset, columns: list[str], *, gone: str) -> None:
        import deltalake

        if not deltalake.DeltaTable.is_deltatable(path):
            kept = pa.schema([data.schema.field(name) for name in columns if name != DELETED])
            deltalake.DeltaTable.create(path, deltalake.Schema.from_arrow(kept))
        (
            deltalake.DeltaTable(path)
            .merge(streamed(data, columns), f"t.{KEY} = s.{KEY}", source_alias="s", target_alias="t", merge_schema=True)
            .when_matched_delete(gone)
            .when_matched_update_all(except_cols=[DELETED])
            .when_not_matched_insert_all(f"not ({gone})", except_cols=[DELETED])
            .execute()
        )

    def forget(self, hours: float) -> None:
        import deltalake

        for path in (self._path, f"{self._path}_deleted"):
            if deltalake.DeltaTable.is_deltatable(path):
                if path != self._path:
                    deltalake.DeltaTable(path).delete(f"__publishTime < '{oldest(hours).isoformat()}'")
                deltalake.DeltaTable(path).vacuum(int(hours), dry_run=False, enforce_retention_duration=False)


class IcebergSnapshot:
    """A merge is a transaction of each of two tables: that of the deleted keys is NAME_deleted, and goes first."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, staging: Path) -> None:
        from magnetar.spark.jobs.tables.iceberg import open_catalog

        if "." not in name:
            raise JobFailed(f"--table {name}: expected NAMESPACE.NAME")
        self._spark = spark
        self._catalog = open_catalog(folder)
        self._name = name
        self._staging = staging

    def live(self) -> DataFrame | None:
        return self._read(self._name)

    def deleted(self) -> DataFrame | None:
        return taken_out(self._read(f"{self._name}_deleted"), self.live())

    def _read(self, name: str) -> DataFrame | None:
        from magnetar.spark.jobs.tables.iceberg import data_files

        if not self._catalog.table_exists(name):
            return None
        table = self._catalog.load_table(name)
        files = data_files(table)
        if files:
            return self._spark.read.option("mergeSchema", "true").parquet(*files)
        return self._spark.createDataFrame([], spark_schema(self._spark, table.schema().as_arrow(), self._staging))

    def apply(self, changes: DataFrame) -> None:
        keys = keys_of(changes).columns
        with staged(changes, self._staging) as data:
            self._merge(f"{self._name}_deleted", data, keys, pds.field(DELETED))
            self._merge(self._name, data, [name for name in data.schema.names if name != DELETED], ~pds.field(DELETED))

    def _merge(self, name: str, data: pds.Dataset, columns: list[str], kept: pds.Expression) -> None:
        from pyiceberg.expressions import In, Reference

        from magnetar.spark.jobs.tables.iceberg import slices

        schema = pa.schema([data.schema.field(each) for each in columns])
        self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table = self._catalog.create_table_if_not_exists(name, schema=schema)
        with table.transaction() as change:
            with change.update_schema() as update:
                update.union_by_name(schema)
            if table.current_snapshot() is not None:
                changed = set(data.to_table(columns=[KEY])[KEY].to_pylist())
                change.delete(In(term=Reference(KEY), values=changed))
            for part in slices(data, columns, kept):
                change.append(part)

    def forget(self, hours: float) -> None:
        """Snapshots only: pyiceberg removes no files."""
        for name in (self._name, f"{self._name}_deleted"):
            if self._catalog.table_exists(name):
                table = self._catalog.load_table(name)
                if name != self._name and table.current_snapshot() is not None:
                    table.delete(f"__publishTime < '{oldest(hours).isoformat()}'")
                self._catalog.load_table(name).maintenance.expire_snapshots().older_than(oldest(hours)).commit()


def oldest(hours: float) -> datetime:
    """What is kept."""
    return datetime.fromtimestamp(time.time(), UTC) - timedelta(hours=hours)
