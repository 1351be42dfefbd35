"""Folders of Parquet files without the promises of a table: the messages that a job parks, a folder for each batch."""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import local_folder
from magnetar.spark.jobs.tables.parquet_files import read_files, write_files


def write_folder(rows: DataFrame, place: Place) -> None:
    """Replaces the content of a folder by the rows."""
    if place.is_local:
        rows.write.mode("overwrite").parquet(place.url)
        return
    store = place.open()
    written = {file.path for file in write_files(rows, place)}
    for name in store.names():
        if name not in written:
            store.delete(name)


def read_folders(spark: SparkSession, places: Sequence[Place], columns: pa.Schema) -> DataFrame | None:
    """Returns columns of the rows in folders and in the folders below them, None when there are no files."""
    frames = [_read(spark, place, columns) for place in places]
    found = [frame for frame in frames if frame is not None]
    return reduce(DataFrame.unionByName, found) if found else None


def _read(spark: SparkSession, place: Place, columns: pa.Schema) -> DataFrame | None:
    if place.is_local:
        if not local_folder(place.url).exists():
            return None  # Spark would find that, too, and log a stack of Java's
        try:
            found = spark.read.option("recursiveFileLookup", "true").parquet(place.url)
        except AnalysisException:  # a kill left only what Spark had not finished
            return None
        return found.select(*columns.names)
    names = place.open().names()
    return read_files(spark, place, names, columns) if names else None
