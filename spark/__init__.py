"""Spark and Pulsar: a data source (`source`) and pipelines that are ready to run (`jobs`). Both talk to a service URL,
and use no other part of this project but `pulsar_proto`.

The data source is imported when it is asked for, so that the list of jobs is printed without pyspark.
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
