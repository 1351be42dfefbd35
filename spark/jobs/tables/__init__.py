"""Tables that take a micro-batch once: Parquet, Delta, Iceberg."""

from magnetar.spark.jobs.tables.rules import Table, check_columns, open_table

__all__ = ["Table", "check_columns", "open_table"]
