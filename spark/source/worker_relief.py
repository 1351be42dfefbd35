"""Spares Spark's Python workers 0.3 s of CPU for each task, which they would spend beside the task itself, and their
terminal a traceback at the end of a query.

Before each task a worker calls `importlib.invalidate_caches`. Until Python 3.13 that call reads the directory of every
zip file again, once for each package that was searched for in the file (cpython gh-103200), and the workers' path has
Spark's zip of 1,300 files and its jar of 5,000. Executors that import this project from a bundle have its 350 files
there, too. After each task a worker calls `gc.collect`, which visits every imported object.
"""

import gc
import os
import re
import sys
from functools import cache
from types import TracebackType
from zipimport import zipimporter

from magnetar.spark.source.origin import archive_of_this

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""The program that runs the reader of a streaming query beside the driver."""

_is_of_spark = re.compile(r".*[/\\](pyspark\.zip|py4j-[^/\\]*\.zip|spark-core_[^/\\]*\.jar)").fullmatch


def relieve_worker() -> None:
    """Spares the worker the costs that the module describes. A task calls this at its end, when the modules that the
    worker's next task needs are imported."""
    _forget_archives()
    _freeze_once()


def _forget_archives() -> None:
    """Drops the importers of Spark's own archives and of this project's, so that there is no directory to read again.
    An import that needs such an archive makes a new importer, at no cost. Importers of other archives (`addPyFile`)
    stay, because these files may be replaced while a worker lives."""
    own = str(archive_of_this())
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and (
            _is_of_spark(importer.archive) or os.path.abspath(importer.archive) == own
        ):
            sys.path_importer_cache.pop(path, None)


@cache
def _freeze_once() -> None:
    """Hides imported objects from the garbage collector. This is done only once, so that cycles of later tasks are
    still collected."""
    gc.collect()
    gc.freeze()


def end_quietly() -> None:
    """Lets the runner of a streaming source end without a traceback when Java has closed its socket, because that is
    how a query ends that is stopped. Has no effect in other processes."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == RUNNER:
        sys.excepthook = _show_unless_java_left


def _show_unless_java_left(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, ConnectionError):
        sys.__excepthook__(kind, error, trace)
