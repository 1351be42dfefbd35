"""What a worker of Spark spends on every task besides the task, and how to spare it: 0.3 s of CPU a task.

Before each task a worker calls `importlib.invalidate_caches`. Until Python 3.13 that reads the directory of every zip
file anew, once for each package that was looked for in it (cpython gh-103200), and the workers' path has Spark's zip of
1,300 files and its jar of 5,000. After each task it calls `gc.collect`, which walks through all that was imported.
"""

import gc
import re
import sys
from functools import cache
from zipimport import zipimporter

_is_of_spark = re.compile(r".*[/\\](pyspark\.zip|py4j-[^/\\]*\.zip|spark-core_[^/\\]*\.jar)").fullmatch


def relieve_worker() -> None:
    """Call at the end of what a worker was asked for, when all is imported that the next task needs."""
    _forget_spark_archives()
    _freeze_once()


def _forget_spark_archives() -> None:
    """An import that needs one of these importers makes it again, at no cost. Those of other archives (`addPyFile`)
    stay: these may be replaced while a worker lives."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and _is_of_spark(importer.archive):
            sys.path_importer_cache.pop(path, None)


@cache
def _freeze_once() -> None:
    """Once: what a later task leaves in cycles is to be collected."""
    gc.collect()
    gc.freeze()
