"""A folder of Parquet files. In it, each batch has a folder `ingest_batch=N`, which a rename makes visible as a whole.

The last `ingest_batch=N` also says that all batches up to N are in the table: batches come in order, and compaction
puts the rows of several batches into the folder of the last one. The owner file says which query wrote the batches, and
which columns the table has.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.tables.table_rules import BATCH, check_owner, check_partitioning

OWNER_FILE = "_magnetar_ingest.json"
BUILDING, MERGED, REPLACED, INTENT_FILE = "_building", "_merged", "_replaced", "_merging.json"
"""Spark, pyarrow and others do not see files and folders whose names begin with an underscore."""
MERGED_BYTES = 128 * 1024 * 1024
"""Neighbouring folders are merged up to this size; larger folders are left alone."""


class ParquetTable:
    """A table of Parquet folders; see `Table` for what the methods do."""

    def __init__(self, folder: Path, *, by: str) -> None:
        """Finishes a merge that a kill interrupted. Raises JobFailed when the table is partitioned by other columns
        than `by`."""
        self._folder = folder
        self._by = by
        self._finish_merge()
        owner = self._owner()
        if owner:
            check_partitioning(folder, owner["partition_by"], by)

    def _owner(self) -> dict[str, Any]:
        path = self._folder / OWNER_FILE
        owner: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return owner

    def schema(self) -> StructType | None:
        owner = self._owner()
        return StructType.fromJson(owner["schema"]) if owner else None

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        self._own(app, rows.schema)
        batches = self._batches()
        if batches and number <= _number(batches[-1]):
            return None
        building = self._folder / BUILDING
        writer = rows.write.mode("overwrite")
        (writer.partitionBy(self._by) if self._by else writer).parquet(str(building))
        finished = self._folder / f"{BATCH}={number:08d}"
        building.rename(finished)
        return sum(int(pq.read_metadata(path).num_rows) for path in _files(finished))

    def _own(self, app: str, columns: StructType) -> None:
        """Makes sure that the owner file names this query and these columns. Raises JobFailed for what `check_owner`
        refuses."""
        owner = self._owner()
        check_owner(self._folder, owner.get("query", ""), app, columns)
        known = StructType.fromJson(owner["schema"]) if owner else StructType()
        union = StructType([*known.fields, *(field for field in columns.fields if field.name not in known.names)])
        if union != known:
            self._folder.mkdir(parents=True, exist_ok=True)
            owner = {"query": app, "partition_by": self._by, "schema": union.jsonValue()}
            replace_text(self._folder / OWNER_FILE, json.dumps(owner))

    def _batches(self) -> list[Path]:
        return sorted(path for path in self._folder.glob(f"{BATCH}=*") if path.is_dir())

    def files(self) -> list[str]:
        return [str(path) for folder in self._batches() for path in _files(folder)]

    def rows(self, spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
        return spark.read.option("mergeSchema", "true").parquet(*files).select(*columns)

    def count(self) -> int:
        return sum(int(pq.read_metadata(path).num_rows) for path in self.files())

    def compact(self, spark: SparkSession) -> int:
        gone = 0
        for group in groups(self._batches()):
            before = [path for folder in group for path in _files(folder)]
            leaves = {path.parent.relative_to(self._folder).parts[1:] for path in before}
            if len(before) > len(leaves):
                self._merge(spark, group, before)
                gone += len(before) - len(_files(group[-1]))
        return gone

    def _merge(self, spark: SparkSession, group: Sequence[Path], files: Sequence[Path]) -> None:
        """Merges a group of folders: builds the merged folder, writes down the renames that are to happen (the intent
        file), and makes them."""
        reader = spark.read.option("basePath", str(self._folder)).option("mergeSchema", "true")
        rows = reader.schema(self.schema() or StructType()).parquet(*map(str, files))
        rows = rows.select(*(f"`{name}`" for name in rows.columns if name != BATCH))
        writer = (rows.repartition(1, self._by) if self._by else rows.coalesce(1)).write.mode("overwrite")
        (writer.partitionBy(self._by) if self._by else writer).parquet(str(self._folder / MERGED))
        intent = {"folders": [folder.name for folder in group]}
        replace_text(self._folder / INTENT_FILE, json.dumps(intent))
        self._finish_merge()

    def _finish_merge(self) -> None:
        """Finishes a merge from wherever a kill may have left it. A reader that lists the folder between the renames
        misses rows, but no reader ever sees a row twice."""
        intent, merged, replaced = (self._folder / name for name in (INTENT_FILE, MERGED, REPLACED))
        if intent.exists():
            names = json.loads(intent.read_text())["folders"]
            if merged.exists():
                replaced.mkdir(exist_ok=True)
                for name in names:
                    if (self._folder / name).exists():
                        (self._folder / name).rename(replaced / name)
                merged.rename(self._folder / names[-1])
            intent.unlink()
        shutil.rmtree(replaced, ignore_errors=True)
        shutil.rmtree(merged, ignore_errors=True)


def groups(folders: Sequence[Path]) -> Iterator[list[Path]]:
    """Yields groups of neighbouring folders that together are small enough to be merged."""
    group: list[Path] = []
    size = 0
    for folder in folders:
        more = sum(path.stat().st_size for path in _files(folder))
        if group and size + more > MERGED_BYTES:
            yield group
            group, size = [], 0
        if more < MERGED_BYTES:
            group.append(folder)
            size += more
    if group:
        yield group


def replace_text(path: Path, text: str) -> None:
    """Writes a file so that its content is replaced as a whole or not at all."""
    building = path.with_name(f"{path.name}.building")
    building.write_text(text)
    building.rename(path)


def _number(batch: Path) -> int:
    return int(batch.name.partition("=")[2])


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))
