"""Tables that take a micro-batch once: Parquet, Delta, Iceberg. `table.open_table` opens a table.

This package may use the modules of `spark/jobs` that all jobs share. The jobs that write tables use this package.
"""
