"""Brings the data source to the processes that Spark runs it in: the executors, and the worker processes of the driver
that plan queries.

`registration` registers the data source with a session and ships it where it may be missing, as a zip that `bundle`
makes; `unpacking` runs in processes that import this project from such a zip. This package imports nothing else of the
project but the data source, when it is registered; the jobs and `magnetar spark --bundle` use it.
"""
