"""The scene of the tests that run the published connector."""

from compat_tests.spark.scene import scene

__all__ = ["scene"]
