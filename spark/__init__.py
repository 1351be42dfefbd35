"""Spark and Pulsar: a data source and pipelines. Installed, this package is `magnetar.spark`.

Nothing is imported before it is asked for: the list of jobs is printed without pyspark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnetar.spark.source import PulsarDataSource

__all__ = ["PulsarDataSource"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.source"), name)
