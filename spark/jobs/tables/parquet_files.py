"""Executors write and read Parquet files of a table themselves; the driver only learns the names.

A task that is repeated writes other files than its first attempt. Only the files of the attempt that Spark counts are
in the result, so a file belongs to a table when the table's commit names it.
"""

import io
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import local_folder
from magnetar.spark.jobs.tables.column_stats_rules import stats_of

FILE_BYTES = 128 * 1024 * 1024
"""A task begins another file when a file has so many bytes. Until a file is complete, it is in the task's memory."""
OPEN_FILES = 20
"""So many partitions of a table are written at a time by one task; a further partition ends the largest file."""
GROUP_ROWS = 128 * 1024
READ_ROWS = 16_384
RESULT = "path string, rows long, size long, partition string, stats string, columns binary"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that an executor has written. `path` is below the table's folder, `partition` is the value of the column
    by which the table is partitioned, `stats` is JSON as Delta has it, and `columns` is the file's Arrow schema."""

    path: str
    rows: int
    size: int
    partition: str | None
    stats: str
    columns: bytes

    @property
    def schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(bytes(self.columns)))


def write_files(
    rows: DataFrame, place: Place, folder: str = "", *, by: str = "", keep_by: bool = False
) -> list[WrittenFile]:
    """Lets the executors write the rows to files below `folder` of a place. With `by`, a file has rows of one value of
    this text column, and its path says so; the file has the column itself only with `keep_by`."""
    written = rows.mapInArrow(FileWriter(place, folder, by, keep_by=keep_by), RESULT).collect()
    files = [WrittenFile(**each.asDict()) for each in written]
    return sorted(files, key=lambda each: each.path)


def union_of(files: Sequence[WrittenFile]) -> pa.Schema:
    """Returns the columns of files, which are those of their rows."""
    return pa.unify_schemas([file.schema for file in files])


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns the Spark schema that corresponds to an Arrow schema."""
    return from_arrow_schema(pa.schema([each.remove_metadata() for each in schema]))


def nullable(kind: pa.DataType) -> pa.DataType:
    """Returns a type in which everything may be null, because later batches may have nulls there."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, nullable(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(nullable(kind.key_type), nullable(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", nullable(kind.value_type)))
    return kind


class _OpenFile:
    """A Parquet file that is being made in memory."""

    def __init__(self, schema: pa.Schema, partition: str | None) -> None:
        self.partition = partition
        self.sink = io.BytesIO()
        self._found: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(self.sink, schema, compression="snappy", metadata_collector=self._found)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows. Batches of Spark are small, so several of them make a row group."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._rows = [], 0

    @property
    def size(self) -> int:
        waiting: int = sum(batch.nbytes for batch in self._waiting)
        return self.sink.tell() + waiting

    def close(self) -> pq.FileMetaData:
        self._flush()
        self._writer.close()
        return self._found[0]


class FileWriter:
    """The function of `write_files` that runs in a task."""

    def __init__(self, place: Place, folder: str, by: str, *, keep_by: bool) -> None:
        self._place = place
        self._folder = folder
        self._by = by
        self._keep_by = keep_by

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows of a task, and yields a row for each file."""
        store = self._place.open()
        open_files: dict[str | None, _OpenFile] = {}

        def finish(file: _OpenFile) -> pa.RecordBatch:
            del open_files[file.partition]
            metadata = file.close()
            data = file.sink.getvalue()
            path = self._path(file.partition)
            store.write(path, data)
            schema = metadata.schema.to_arrow_schema().remove_metadata()
            row = (
                path,
                metadata.num_rows,
                len(data),
                file.partition,
                stats_of(metadata),
                schema.serialize().to_pybytes(),
            )
            return pa.RecordBatch.from_arrays([pa.array([each]) for each in row], names=list(_RESULT_NAMES))

        for whole in batches:
            for partition, batch in self._parts(whole):
                if partition not in open_files:
                    if len(open_files) >= OPEN_FILES:
                        yield finish(max(open_files.values(), key=lambda each: each.size))
                    open_files[partition] = _OpenFile(batch.schema, partition)
                file = open_files[partition]
                file.add(batch)
                if file.size >= FILE_BYTES:
                    yield finish(file)
        for file in list(open_files.values()):
            yield finish(file)

    def _parts(self, whole: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
        """Yields the rows of a batch by partition."""
        if not whole.num_rows:
            return
        batch = whole.cast(pa.schema([pa.field(each.name, nullable(each.type)) for each in whole.schema]))
        if not self._by:
            yield None, batch
            return
        values = batch.column(self._by)
        kept = [name for name in batch.schema.names if self._keep_by or name != self._by]
        for value in pc.unique(values):
            yield value.as_py(), batch.filter(pc.equal(values, value)).select(kept)

    def _path(self, partition: str | None) -> str:
        parts = [self._folder, f"{self._by}={partition}" if self._by else "", f"part-{uuid.uuid4()}.parquet"]
        return "/".join(part for part in parts if part)


_RESULT_NAMES = ("path", "rows", "size", "partition", "stats", "columns")


def read_files(spark: SparkSession, place: Place, names: Sequence[str], columns: pa.Schema) -> DataFrame:
    """Returns the rows of files below a place, which the executors read. A column that a file does not have is null.
    Without files, returns an empty frame with the columns."""
    if not names:
        return spark.createDataFrame([], spark_schema(columns))
    if place.is_local:
        folder = local_folder(place.url)
        return spark.read.schema(spark_schema(columns)).parquet(*(str(folder / name) for name in names))
    listed = spark.createDataFrame([(name,) for name in names], "name string")
    tasks = min(len(names), spark.sparkContext.defaultParallelism * 4)
    return listed.repartition(tasks).mapInArrow(FileReader(place, columns), spark_schema(columns))


class FileReader:
    """The function of `read_files` that runs in a task."""

    def __init__(self, place: Place, columns: pa.Schema) -> None:
        self._place = place
        self._columns = columns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = self._place.open()
        for batch in batches:
            for name in batch.column(0).to_pylist():
                with store.open(name) as source:
                    yield from rows_of_file(pq.ParquetFile(source), self._columns)


def rows_of_file(file: pq.ParquetFile, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields a file's rows with the given columns."""
    there = set(file.schema_arrow.names)
    wanted = [name for name in columns.names if name in there]
    for batch in file.iter_batches(READ_ROWS, columns=wanted):
        arrays = [
            batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
            for field in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)
