"""Spark and Pulsar: a data source (`source`) and pipelines that are ready to run (`jobs`). Both connect to Pulsar's
service URL. Of this project's other parts they use only `pulsar_proto`.

The data source is imported only when it is asked for, so that `magnetar spark` can list the jobs where pyspark is
missing.
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
