"""The job `snapshot_table`: the latest row of each key as a table. Nothing else uses this package."""
