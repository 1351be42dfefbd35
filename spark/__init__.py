"""Spark and Pulsar: a data source (`source`), what brings it to the machines of a cluster (`shipping`), and pipelines
that are ready to run (`jobs`). Source and jobs connect to Pulsar's service URL. Of this project's other parts they use
only `pulsar_proto`.

The data source is imported only when it is asked for, so that `magnetar spark` can list the jobs where pyspark is
missing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnetar.spark.shipping.registration import register
    from magnetar.spark.source import PulsarDataSource

__all__ = ["PulsarDataSource", "register"]

_MODULES = {"PulsarDataSource": "source", "register": "shipping.registration"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
