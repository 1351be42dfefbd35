"""The scene of the tests that need Spark and a server."""

from tests.spark.support import scene

__all__ = ["scene"]
