"""Pipelines over topics: `magnetar spark JOB`, or spark-submit with the module's file.

Each job has a package of its own. This package has what jobs share: arguments, session, query, progress and outcome.
Jobs stand on `spark/source` and `pulsar_proto`.

When spark-submit runs a job's file, the file's folder is the first one on Python's path. So no module beside a job may
have the name of a library's module.
"""
