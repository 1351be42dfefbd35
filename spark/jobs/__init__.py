"""Pipelines over topics: `magnetar spark JOB`, or spark-submit with the module's file.

Each job has a package of its own below this one. The modules of `spark/jobs` itself hold what the jobs share:
arguments, session, query, progress and outcome. Jobs use `spark/source` and `pulsar_proto`.

When spark-submit runs a job's file, the file's folder is the first one on Python's path. So no module beside a job may
have the name of a library's module.
"""
