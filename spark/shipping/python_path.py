"""The path of the Python processes that Spark starts beside the driver's program."""

import os
import sys
from pathlib import Path

VARIABLE = "PYTHONPATH"


def with_quick_start(path: str, python: str) -> str:
    """Returns the PYTHONPATH `path` of processes that run `python`, with the folder `python_start` at its end. The
    processes then start with a quarter of the CPU, which counts on a busy machine: Spark gives each of them ten seconds
    to start, and then ends the query with "Python worker failed to connect back".

    The folder is left out where the zip that Spark brings along may be of another version than the pyspark of the
    processes' environment, and where this module runs from a zip, which has no folders.
    """
    entries = [entry for entry in path.split(os.pathsep) if entry]
    own = Path(__file__).parent / "python_start"
    is_same = python == sys.executable and "SPARK_HOME" not in os.environ
    if is_same and own.is_dir() and str(own) not in entries:
        entries.append(str(own))
    return os.pathsep.join(entries)
