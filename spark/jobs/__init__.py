"""Pipelines over topics, one module a job: `magnetar spark JOB`, or spark-submit with the module's file."""
