"""Rules for the folders, columns and partitions that a table accepts."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_outcome import JobFailed


def is_local(path: str) -> bool:
    """Returns whether `path` is a path, which may have a colon in it, or a `file:` URL."""
    return "://" not in path or path.startswith("file:")


def local_folder(path: str) -> Path:
    """Returns the folder of a path or `file:` URL. Raises JobFailed for another URL, because files behind it cannot be
    renamed in one step."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise JobFailed(f"--path {path}: only delta can be elsewhere than in a local or mounted folder")
    return Path(unquote(parts.path) if parts.scheme else path).absolute()


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
