"""The columns that Spark sees, in both directions.

Reading: a topic's schema becomes Spark types and message values become Arrow columns (`value_columns`), with the
metadata columns beside them (`batch_builder`). Writing: a query's columns become messages (`message_builder`,
`value_encoders`). This package may use `decoding` and `client`. The data source uses it, and so do jobs that name its
columns.
"""
