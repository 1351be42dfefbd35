"""Spark's words for the limits of a batch. Spark 4.1 has none of them, so here they have stand-ins that Spark 4.1 never
asks for."""

from dataclasses import dataclass

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError:  # Spark 4.1

    class ReadLimit: ...  # type: ignore[no-redef]

    @dataclass
    class ReadAllAvailable(ReadLimit): ...  # type: ignore[no-redef]

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        max_rows: int

    @dataclass
    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        min_rows: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        max_bytes: int

    class SupportsTriggerAvailableNow: ...  # type: ignore[no-redef]

    SPARK_GIVES_LIMITS = False
else:
    SPARK_GIVES_LIMITS = True
    """Whether Spark tells a reader where the query is and which limit holds, and asks it for the end of an
    available-now run (from Spark 4.2 on)."""

__all__ = [
    "SPARK_GIVES_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
