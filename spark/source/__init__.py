"""The Pulsar data source for Spark in pure Python: Spark calls the classes of `data_source`; `options` has the options
that a user may set.

Reading: `planner` asks on the driver where a query begins and ends and which tasks it has, `admission` where the next
batch of a streaming query ends, and `range_reader` reads one task's range in an executor. Writing: `row_writer` sends
one task's rows. These modules use four packages: `ranges`, `decoding`, `client`, `columns`. Each of the four may use
those before it in this list. The jobs use all four.

`data_source` is imported only when it is asked for, because the other modules also serve jobs that read through the
published connector on a pyspark without `pyspark.sql.datasource`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnetar.spark.source.data_source import PulsarDataSource

__all__ = ["PulsarDataSource"]

_EXTRAS = ("fastavro", "numpy", "pandas", "pyarrow", "pyspark")
"""The packages that `magnetar[spark]` installs and the data source needs."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        return getattr(import_module(f"{__name__}.data_source"), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _EXTRAS:
            text = f"the data source needs {package}, which is not installed: pip install 'magnetar[spark]'"
            raise ModuleNotFoundError(text, name=error.name) from None
        raise
