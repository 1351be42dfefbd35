"""Delta tables, committed by deltalake. The executors write the data files. Query id and batch number are stored as
Delta's own transaction identifiers (appId and version of a `txn` action), in the same commit as the batch's files.
"""

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import StorageFault, sentence_of
from magnetar.spark.jobs.tables.parquet_files import WrittenFile, read_files, spark_schema, union_of, write_files
from magnetar.spark.jobs.tables.table_rules import check_partitioning

COMMITS_MAX = 10
"""So often a batch is offered to a table to which others write at the same time."""


def existing(place: Place) -> deltalake.DeltaTable | None:
    """Returns the table at a place, or None when there is none. Raises StorageFault for a place out of reach."""
    options = dict(place.options)
    try:
        if deltalake.DeltaTable.is_deltatable(place.url, storage_options=options):
            return deltalake.DeltaTable(place.url, storage_options=options)
    except OSError as error:
        raise StorageFault(f"{place.url}: {sentence_of(str(error))}") from error
    return None


class DeltaTable:
    """A Delta table; see `Table` for what the methods do."""

    def __init__(self, place: Place, *, by: str) -> None:
        """Opens the table, if there is one. Raises JobFailed when the table exists and is not partitioned by `by`."""
        self._place = place
        self._by = by
        found = existing(place)
        if found is not None:
            check_partitioning(place.url, ",".join(found.metadata().partition_columns), by)

    def schema(self) -> StructType | None:
        found = existing(self._place)
        return None if found is None else spark_schema(columns_of(found))

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        if self._has(existing(self._place), app, number):
            return None
        files = write_files(rows, self._place, by=self._by)
        for _ in range(COMMITS_MAX):
            found = existing(self._place)
            if self._has(found, app, number):
                return None
            try:
                self._commit(found, files, app, number)
            except CommitFailedError:
                continue  # another query wrote to the table in this moment
            return sum(file.rows for file in files)
        raise JobFailed(f"{self._place.url}: others write to the table all the time; batch {number} did not get in")

    def _has(self, found: deltalake.DeltaTable | None, app: str, number: int) -> bool:
        done = None if found is None else found.transaction_version(app)
        return done is not None and done >= number

    def _commit(self, found: deltalake.DeltaTable | None, files: Sequence[WrittenFile], app: str, number: int) -> None:
        """Commits files together with the number of their batch. A conflict is not retried by the library, because then
        the table may have the batch already."""
        commit: dict[str, Any] = {
            "commit_properties": deltalake.CommitProperties(
                app_transactions=[deltalake.Transaction(app, number)], max_commit_retries=0
            )
        }
        by = [self._by] if self._by else []
        if found is None:
            if files:
                columns = union_of(files)
                columns = columns.append(pa.field(self._by, pa.string())) if self._by else columns
                options = dict(self._place.options)
                schema = deltalake.Schema.from_arrow(columns)
                adds = [self._action(file) for file in files]
                create_table_with_add_actions(
                    self._place.url, schema, adds, partition_by=by, storage_options=options, **commit
                )
            return
        known = set(columns_of(found).names)
        added = [field for field in union_of(files) if field.name not in known] if files else []
        if added:  # `check_columns` has decided which new columns may come in
            found.alter.add_columns(list(deltalake.Schema.from_arrow(pa.schema(added)).fields))
        found.create_write_transaction([self._action(file) for file in files], "append", found.schema(), by, **commit)

    def _action(self, file: WrittenFile) -> AddAction:
        values = {self._by: file.partition} if self._by else {}
        return AddAction(file.path, file.size, values, int(time.time() * 1000), data_change=True, stats=file.stats)

    def files(self) -> list[str]:
        found = existing(self._place)
        return [] if found is None else data_files(found)

    def rows(self, spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
        found = existing(self._place)
        assert found is not None
        schema = columns_of(found)
        return read_files(spark, self._place, files, pa.schema([schema.field(name) for name in columns]))

    def count(self) -> int:
        found = existing(self._place)
        return 0 if found is None else int(found.count())

    def compact(self, spark: SparkSession) -> int:
        """Merges small files. The replaced files stay for readers of older versions as long as the table's
        settings say, by default a week."""
        found = existing(self._place)
        if found is None:
            return 0
        removed = int(found.optimize.compact()["numFilesRemoved"])
        found.vacuum(dry_run=False)
        return removed


def columns_of(table: deltalake.DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def data_files(table: deltalake.DeltaTable) -> list[str]:
    """Returns a table's files: their names below the place. deltalake gives them percent-encoded, local ones too."""
    root = table.table_uri.rstrip("/") + "/"
    return [unquote(each.removeprefix(root)) for each in table.file_uris()]
