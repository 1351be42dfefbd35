"""The stores of the latest rows: versions of a Parquet folder, a Delta table, an Iceberg table.

Beside the rows, a table remembers its deleted keys and the changes that deleted them, so that an older message which
comes late, or again, does not bring a row back. To apply changes twice has the same result as to apply them once, so a
repeated batch does no harm.
"""

import json
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.snapshot.changes import DELETED, KEY, LSN, ORIGIN
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import local_folder
from magnetar.spark.jobs.tables.parquet import replace_text
from magnetar.spark.jobs.tables.parquet_files import read_files
from magnetar.spark.jobs.tables.staging import StagedRows, staged
from magnetar.spark.jobs.tables.table import TIMESTAMPS_SETTING, need_table, table_gone
from magnetar.spark.jobs.tables.table_rules import CATALOG_FILE

LATEST_FILE = "_latest.json"
VERSIONS_KEPT = 3
SLICE_BYTES = 256 * 1024 * 1024
"""At most this much of a batch is in the driver's memory at a time when it is merged into an Iceberg table."""
REMEMBERED = [KEY, *ORIGIN, LSN]
"""The columns of deleted keys. LSN is among them only when changes are ordered by LSN."""


class Snapshot(Protocol):
    """A table of the latest rows, and of deleted keys."""

    def live(self) -> DataFrame | None:
        """Returns the present rows, or None when there is no table yet."""

    def deleted(self) -> DataFrame | None:
        """Returns the keys whose delete is done, in the columns REMEMBERED; None when there is no table yet."""

    def apply(self, changes: DataFrame) -> None:
        """Applies changes, at most one for each key. Each change must be younger than the newest change of its key in
        the table."""

    def forget(self, hours: float) -> None:
        """Removes deleted keys and versions of the table that are older than `hours`."""


def need_snapshot(kind: str, place: Place, name: str) -> None:
    """Looks for the table to which a checkpoint has written. Raises JobFailed when there is none, and StorageFault when
    the place cannot be reached."""
    _check_kind(kind, place)
    if kind != "parquet-overwrite":
        need_table(kind, place, name)
    elif not (local_folder(place.url) / LATEST_FILE).exists():
        raise table_gone(place.url)


def open_snapshot(spark: SparkSession, kind: str, place: Place, name: str, *, staging: Place) -> Snapshot:
    """Opens the table at a place, which is a local or mounted folder for `parquet-overwrite`. `staging` is a place that
    executors and driver reach. Raises JobFailed when the folder holds a table of another kind, or when the name does
    not suit the kind."""
    spark.conf.set(TIMESTAMPS_SETTING, "TIMESTAMP_MICROS")
    _check_kind(kind, place)
    if kind == "delta":
        return DeltaSnapshot(spark, place, staging)
    if kind == "iceberg":
        return IcebergSnapshot(spark, place, name, staging)
    return ParquetVersions(spark, local_folder(place.url))


def _check_kind(kind: str, place: Place) -> None:
    """Raises JobFailed when a local folder holds a table of another kind."""
    if place.is_local:
        marks = {"parquet-overwrite": LATEST_FILE, "delta": "_delta_log", "iceberg": CATALOG_FILE}
        for other, mark in marks.items():
            if other != kind and (local_folder(place.url) / mark).exists():
                raise JobFailed(f"{place.url} was written with --merge {other}")


def rows_of(changes: DataFrame) -> DataFrame:
    """Returns the rows of changes that delete nothing."""
    return changes.where(~F.col(DELETED)).drop(DELETED)


def keys_of(changes: DataFrame) -> DataFrame:
    """Returns the columns REMEMBERED of those changes that delete their key."""
    return changes.where(DELETED).select(*(name for name in REMEMBERED if name in changes.columns))


def taken_out(deleted: DataFrame | None, live: DataFrame | None) -> DataFrame | None:
    """Returns the deleted keys that really have no row any more. A kill between the transactions of the two tables
    leaves a key in both of them. Such a key does not count as deleted, so that the delete is done when its change comes
    again."""
    if deleted is None or live is None:
        return deleted
    return deleted.join(live.select(KEY), KEY, "left_anti")


class ParquetVersions:
    """Writes a folder `version=N` whenever something changes. A version counts when `_latest.json` names it."""

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
        """Returns a folder's rows, or None before the first version. Raises JobFailed when the folder is missing."""
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
        """Removes only deleted keys. The store keeps the newest three versions of the table, whatever their age."""
        live, deleted = self.live(), self.deleted()
        if live is not None and deleted is not None:
            self._write(live, deleted.where(F.col("__publishTime") >= F.lit(oldest(hours))))


class DeltaSnapshot:
    """Keeps the rows in a Delta table and the deleted keys in a second table, `PATH_deleted`. Each merge makes one
    transaction in each of the two tables, first in the table of the deleted keys."""

    def __init__(self, spark: SparkSession, place: Place, staging: Place) -> None:
        self._spark = spark
        self._rows = place
        self._keys = place.beside("_deleted")
        self._staging = staging

    def live(self) -> DataFrame | None:
        return self._read(self._rows)

    def deleted(self) -> DataFrame | None:
        return taken_out(self._read(self._keys), self.live())

    def _read(self, place: Place) -> DataFrame | None:
        from magnetar.spark.jobs.tables import delta

        table = delta.existing(place)
        if table is None:
            return None
        return read_files(self._spark, place, delta.data_files(table), delta.columns_of(table))

    def apply(self, changes: DataFrame) -> None:
        keys = [*keys_of(changes).columns, DELETED]
        with staged(changes, self._staging) as data:
            if not data.files:
                return
            self._merge(self._keys, data, keys, gone=f"not s.{DELETED}")
            self._merge(self._rows, data, data.schema.names, gone=f"s.{DELETED}")

    def _merge(self, place: Place, data: StagedRows, columns: list[str], *, gone: str) -> None:
        import deltalake

        from magnetar.spark.jobs.tables import delta

        table = delta.existing(place)
        if table is None:
            kept = pa.schema([data.schema.field(name) for name in columns if name != DELETED])
            options = dict(place.options)
            schema = deltalake.Schema.from_arrow(kept)
            table = deltalake.DeltaTable.create(place.url, schema, storage_options=options)
        (
            table.merge(
                data.stream(columns),
                f"t.{KEY} = s.{KEY}",
                source_alias="s",
                target_alias="t",
                merge_schema=True,
            )
            .when_matched_delete(gone)
            .when_matched_update_all(except_cols=[DELETED])
            .when_not_matched_insert_all(f"not ({gone})", except_cols=[DELETED])
            .execute()
        )

    def forget(self, hours: float) -> None:
        from magnetar.spark.jobs.tables.delta import existing

        keys = existing(self._keys)
        if keys is not None:
            keys.delete(f"__publishTime < '{oldest(hours).isoformat()}'")
        for place in (self._rows, self._keys):
            table = existing(place)
            if table is not None:
                table.vacuum(int(hours), dry_run=False, enforce_retention_duration=False)


class IcebergSnapshot:
    """Keeps the rows in an Iceberg table and the deleted keys in a second table, NAME_deleted. Each merge makes one
    transaction in each of the two tables, first in the table of the deleted keys."""

    def __init__(self, spark: SparkSession, warehouse: Place, name: str, staging: Place) -> None:
        from magnetar.spark.jobs.tables.iceberg import check_name
        from magnetar.spark.jobs.tables.iceberg_catalog import open_catalog

        check_name(name)
        self._spark = spark
        self._warehouse = warehouse
        self._catalog = open_catalog(warehouse)
        self._name = name
        self._staging = staging

    def live(self) -> DataFrame | None:
        return self._read(self._name)

    def deleted(self) -> DataFrame | None:
        return taken_out(self._read(f"{self._name}_deleted"), self.live())

    def _read(self, name: str) -> DataFrame | None:
        from magnetar.spark.jobs.tables.iceberg import data_files, existing

        table = existing(self._catalog, name)
        if table is None:
            return None
        files = data_files(table, self._warehouse)
        return read_files(self._spark, self._warehouse, files, table.schema().as_arrow())

    def apply(self, changes: DataFrame) -> None:
        keys = keys_of(changes).columns
        with staged(changes, self._staging) as data:
            if not data.files:
                return
            self._merge(f"{self._name}_deleted", data, keys, deleted=True)
            self._merge(self._name, data, [name for name in data.schema.names if name != DELETED], deleted=False)

    def _merge(self, name: str, data: StagedRows, columns: list[str], *, deleted: bool) -> None:
        from pyiceberg.expressions import In, Reference

        from magnetar.spark.jobs.tables.iceberg import created, slices

        schema = pa.schema([data.schema.field(each) for each in columns])
        table = created(self._catalog, name, schema)
        with table.transaction() as change:
            with change.update_schema() as update:
                update.union_by_name(schema)
            if table.current_snapshot() is not None:
                changed = {key for batch in data.stream([KEY]) for key in batch.column(0).to_pylist()}
                change.delete(In(term=Reference(KEY), values=changed))
            for part in slices(data.stream([*columns, DELETED]), SLICE_BYTES):
                change.append(part.filter(pc.equal(part[DELETED], deleted)).select(columns))

    def forget(self, hours: float) -> None:
        """Expires snapshots, but leaves their files, because pyiceberg removes no files."""
        for name in (self._name, f"{self._name}_deleted"):
            if self._catalog.table_exists(name):
                table = self._catalog.load_table(name)
                if name != self._name and table.current_snapshot() is not None:
                    table.delete(f"__publishTime < '{oldest(hours).isoformat()}'")
                self._catalog.load_table(name).maintenance.expire_snapshots().older_than(oldest(hours)).commit()


def oldest(hours: float) -> datetime:
    """Returns the time that was `hours` ago. Data from before that time is not kept."""
    return datetime.fromtimestamp(time.time(), UTC) - timedelta(hours=hours)
