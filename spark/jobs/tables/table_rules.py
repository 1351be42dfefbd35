"""Rules for the columns, partitions and queries that a table accepts."""

import re

from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_outcome import JobFailed

CATALOG_FILE = "catalog.db"
"""The database of a local warehouse of Iceberg."""

BATCH = "ingest_batch"
"""The folders of a Parquet table are called so, with the number of their batch."""


def check_columns(table: StructType | None, rows: StructType, *, evolve: bool) -> None:
    """Raises JobFailed, which names the columns, when the rows do not fit the table. Columns that only the table has
    are allowed, and become null. With `evolve`, columns that only the rows have are allowed, too. `table` is None when
    there is no table yet."""
    if table is None:
        return
    known = {field.name: _kind(field.dataType.simpleString()) for field in table.fields}
    added = [field.name for field in rows.fields if field.name not in known]
    if added and not evolve:
        raise JobFailed(
            f"the table has no column {', '.join(added)}, the topic has: --schema evolve takes new columns in, "
            f"--columns {','.join(name for name in rows.names if not name.startswith('__') and name in known)} "
            "leaves them out"
        )
    for field in rows.fields:
        kind = _kind(field.dataType.simpleString())
        if known.get(field.name, kind) != kind:
            raise JobFailed(
                f"column {field.name} is {known[field.name]} in the table and {kind} in the topic: "
                "a table's types stay; use another table"
            )


def _kind(text: str) -> str:
    """Returns the type by which columns are compared. Types of small integers become `int`, because Iceberg has no
    integers of less than 32 bits."""
    return re.sub(r"\b(tinyint|smallint)\b", "int", text)


def check_partitioning(where: object, found: str, wanted: str) -> None:
    """Raises JobFailed when a table is partitioned by other columns than it should be."""
    if found != wanted:
        raise JobFailed(
            f"{where} is partitioned by {found or 'nothing'}, --partition-by asks for {wanted or 'nothing'}"
        )


def check_owner(where: object, owner: str, app: str, columns: StructType) -> None:
    """Raises JobFailed when a Parquet table belongs to another checkpoint, because two checkpoints give the same
    numbers to their batches. Also raises JobFailed when a column is called `ingest_batch`: readers make a column of
    that name from the names of the folders. `owner` is empty when there is no table yet."""
    if BATCH in map(str.lower, columns.names):
        raise JobFailed(f"a Parquet table's folders are called {BATCH}, and so is a column: use delta or iceberg")
    if owner and owner != app:
        raise JobFailed(f"{where} was written with another checkpoint; use that one, or another folder")
