"""Parquet files below a URL of an object store or HDFS, where no rename makes a whole folder visible.

The executors write a batch's files to `_building/N/`. The driver then creates the record `_batches/N.json`, which names
them: from now on the table has the batch. Then the files are copied, each in one step, to `ingest_batch=N/` under names
that the record gives them. A run that was killed in between has its copies made by the next one. So somebody who lists
the files sees a part of the newest batch for a moment, but no row twice, and no row of a batch that is not in the
table.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.tables.parquet_files import read_files, spark_schema, union_of, write_files
from magnetar.spark.jobs.tables.table_rules import BATCH, check_owner, check_partitioning

BATCHES, BUILDING = "_batches", "_building"
"""Spark, pyarrow and others do not see folders whose names begin with an underscore."""
COPIERS = 8


class ParquetObjects:
    """A table of Parquet files on a store; see `Table` for what the methods do."""

    def __init__(self, place: Place, *, by: str) -> None:
        """Finishes the newest batch if a kill interrupted it. Raises JobFailed when the table is partitioned by other
        columns than `by`."""
        self._place = place
        self._by = by
        self._store = place.open()
        if (newest := self._newest()) is not None:
            check_partitioning(place.url, newest["partition_by"], by)
            self._finish(newest)

    def _numbers(self) -> list[int]:
        names = [name.rpartition("/")[2] for name in self._store.names(BATCHES)]
        return sorted(int(name.removesuffix(".json")) for name in names)

    def _record(self, number: int) -> dict[str, Any]:
        found = self._store.read(_record_name(number))
        if found is None:
            raise JobFailed(f"{self._place.url}/{_record_name(number)} is gone: the table is not whole")
        record: dict[str, Any] = json.loads(found)
        return record

    def _newest(self) -> dict[str, Any] | None:
        """Returns the record of the newest batch. It has the columns of all batches so far."""
        numbers = self._numbers()
        return self._record(numbers[-1]) if numbers else None

    def schema(self) -> StructType | None:
        newest = self._newest()
        return None if newest is None else spark_schema(_columns(newest))

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        newest = self._newest()
        check_owner(self._place.url, newest["query"] if newest else "", app, rows.schema)
        if newest is not None and number <= newest["number"]:
            return None
        files = write_files(rows, self._place, f"{BUILDING}/{number:08d}", by=self._by)
        if not files:
            return 0
        columns = union_of(files)
        columns = columns.append(pa.field(self._by, pa.string())) if self._by else columns
        columns = columns if newest is None else pa.unify_schemas([_columns(newest), columns])
        record = {
            "number": number,
            "query": app,
            "partition_by": self._by,
            "columns": b64encode(columns.serialize()).decode(),
            "files": [[file.path, _final_name(file.path, index), file.rows] for index, file in enumerate(files)],
        }
        if not self._store.create(_record_name(number), json.dumps(record).encode()):
            return None
        self._finish(record)
        return sum(file.rows for file in files)

    def _finish(self, record: dict[str, Any]) -> None:
        """Copies the files of a batch that are not copied yet, and removes all files that attempts at the batch have
        left."""
        with ThreadPoolExecutor(COPIERS) as copiers:
            list(copiers.map(self._move, record["files"]))
            list(copiers.map(self._store.delete, self._store.names(f"{BUILDING}/{record['number']:08d}")))

    def _move(self, file: tuple[str, str, int]) -> None:
        source, target, _ = file
        if self._store.copy(source, target):
            self._store.delete(source)
        elif target not in self._store.names(target.rpartition("/")[0]):
            raise JobFailed(f"{self._place.url}/{source} is gone before it was copied: the table is not whole")

    def files(self) -> list[str]:
        return [name for name in self._store.names() if name.startswith(f"{BATCH}=")]

    def rows(self, spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
        newest = self._newest()
        assert newest is not None
        schema = _columns(newest)
        return read_files(spark, self._place, files, pa.schema([schema.field(name) for name in columns]))

    def count(self) -> int:
        with ThreadPoolExecutor(COPIERS) as readers:
            records = readers.map(self._record, self._numbers())
            return sum(file[2] for record in records for file in record["files"])

    def compact(self, spark: SparkSession) -> int:
        raise JobFailed("Parquet files on a store cannot be merged without readers noticing: take --format delta")


def _columns(record: dict[str, Any]) -> pa.Schema:
    """Returns the columns of a record: those of all batches up to this one."""
    return pa.ipc.read_schema(pa.py_buffer(b64decode(record["columns"])))


def _record_name(number: int) -> str:
    return f"{BATCHES}/{number:08d}.json"


def _final_name(path: str, index: int) -> str:
    """Returns the name that a file gets: its batch, its partition if it has one, and its place in the batch."""
    _, number, *partition, _ = path.split("/")
    return "/".join([f"{BATCH}={number}", *partition, f"part-{index:05d}.parquet"])
