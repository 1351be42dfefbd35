"""The job `snapshot_table` writes the latest row of each key to a table. No other package uses this one."""
