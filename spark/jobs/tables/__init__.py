"""Tables that take a micro-batch once: Parquet, Delta, Iceberg; `table.open_table` opens one.

This room may use what jobs share in `spark/jobs`. The jobs that write tables use it.
"""
