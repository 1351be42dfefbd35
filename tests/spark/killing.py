"""A Spark job that can be killed, for the tests of the jobs."""

from compat_tests.spark.job_process import JobProcess

__all__ = ["JobProcess"]
