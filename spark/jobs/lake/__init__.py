"""The job `lake_ingest` writes topics to tables, each message once. No other package uses this one."""
