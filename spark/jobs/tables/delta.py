"""Delta tables, written by deltalake. Query id and batch number are stored as Delta's own transaction identifiers
(appId and version of a `txn` action), in the same commit as the batch's rows.
"""

from pathlib import Path
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.tables.staging import spark_schema, staged, streamed
from magnetar.spark.jobs.tables.table_rules import check_partitioning, is_local


class DeltaTable:
    """A Delta table; see `Table` for what the methods do."""

    def __init__(self, path: str, *, by: str, staging: Path) -> None:
        """Opens the table, if there is one. Raises JobFailed when the table exists and is not partitioned by `by`."""
        self._path = path
        self._by = by
        self._staging = staging
        found = self._existing()
        if found is not None:
            check_partitioning(path, ",".join(found.metadata().partition_columns), by)

    def _existing(self) -> deltalake.DeltaTable | None:
        return deltalake.DeltaTable(self._path) if deltalake.DeltaTable.is_deltatable(self._path) else None

    def schema(self, spark: SparkSession) -> StructType | None:
        found = self._existing()
        return None if found is None else spark_schema(spark, pa.schema(found.schema().to_arrow()), self._staging)

    def write(self, rows: DataFrame, app: str, number: int) -> int | None:
        found = self._existing()
        done = None if found is None else found.transaction_version(app)
        if done is not None and done >= number:
            return None
        with staged(rows, self._staging) as data:
            deltalake.write_deltalake(
                self._path,
                streamed(data),
                mode="append",
                partition_by=[self._by] if self._by else None,
                schema_mode="merge",  # `check_columns` has decided which new columns may come in
                commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction(app, number)]),
            )
            return int(data.count_rows())

    def files(self) -> list[str]:
        found = self._existing()
        return [] if found is None else data_files(found, self._path)

    def compact(self, spark: SparkSession) -> int:
        """Merges small files. The replaced files stay for readers of older versions as long as the table's
        settings say, by default a week."""
        found = self._existing()
        if found is None:
            return 0
        removed = int(found.optimize.compact()["numFilesRemoved"])
        found.vacuum(dry_run=False)
        return removed


def data_files(table: deltalake.DeltaTable, path: str) -> list[str]:
    """Returns a table's files in the form in which Spark takes them. deltalake gives all paths percent-encoded, even
    local paths, which Spark would take literally."""
    files = table.file_uris()
    return [unquote(each) for each in files] if is_local(path) else files
