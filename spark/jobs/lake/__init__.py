"""The job `lake_ingest`: topics to tables, each message once. Nothing else uses this package."""
