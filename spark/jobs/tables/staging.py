"""Passes rows to merges, which the packages of Delta and Iceberg make in the driver.

The executors first put the rows into Parquet files. The driver streams the rows from these files, so that its memory
holds only a part of a batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.tables.parquet_files import WrittenFile, rows_of_file, union_of, write_files

FOLDER = ".staged"
"""The folder of a checkpoint in which rows are staged. A checkpoint's copy leaves hidden folders out."""


@dataclass(frozen=True)
class StagedRows:
    """Rows in Parquet files of a place."""

    place: Place
    files: Sequence[WrittenFile]

    @property
    def schema(self) -> pa.Schema:
        return union_of(self.files)

    def stream(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Returns some columns of the rows as a stream that reads one file after the other."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        store = self.place.open()
        for file in self.files:
            with store.open(file.path) as source:
                yield from rows_of_file(pq.ParquetFile(source), schema)


@contextmanager
def staged(rows: DataFrame, place: Place) -> Iterator[StagedRows]:
    """Gives the rows, as a context manager, in files that are removed when the block ends."""
    store = place.open()
    for left in store.names():  # a run that was killed has left them
        store.delete(left)
    found = StagedRows(place, write_files(rows, place))
    try:
        yield found
    finally:
        for file in found.files:
            store.delete(file.path)
