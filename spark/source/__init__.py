"""The pure-Python Pulsar data source for Spark.

It is imported when it is asked for: the protocol code below it also serves jobs that read through the published
connector on a pyspark without `pyspark.sql.datasource`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark.source.data_source import PulsarDataSource

__all__ = ["PulsarDataSource"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.data_source"), name)
