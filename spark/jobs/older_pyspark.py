"""Functions that pyspark 3.4 has in SQL only. Jobs that read through the published connector also run on pyspark
3.4."""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

IN_SQL = ("count_if", "nullif", "timestamp_micros", "timestamp_millis", "unix_micros", "unix_millis")
"""The functions that jobs call and pyspark 3.4 lacks; pyspark 3.5 has all of them."""


def add_missing_functions() -> None:
    """Adds the missing functions to `pyspark.sql.functions`. Has no effect from pyspark 3.5 on, which has all of
    them."""
    for name in IN_SQL:
        if not hasattr(F, name):
            setattr(F, name, _called(name))


def _called(name: str) -> Callable[..., Column]:
    def call(*columns: Column | str) -> Column:
        return F.call_udf(name, *columns)

    return call
