"""The scene of the tests that need Spark and a server, and what pyspark logs in them."""

import logging
import logging.handlers
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger

from tests.spark.support import scene

__all__ = ["logged_by_pyspark", "scene"]


@pytest.fixture
def logged_by_pyspark() -> Iterator[list[logging.LogRecord]]:
    """Gives what pyspark logs of errors in queries. Its loggers pass nothing on to those of pytest."""
    keeper = logging.handlers.BufferingHandler(capacity=1000)
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    for logger in loggers:
        logger.addHandler(keeper)
    yield keeper.buffer
    for logger in loggers:
        logger.removeHandler(keeper)
