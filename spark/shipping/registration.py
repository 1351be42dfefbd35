"""Registers the data source with a session, and ships it to processes that may not have it."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.spark.shipping.bundle import make_bundle
from magnetar.spark.shipping.cluster_rules import PYTHON_VARIABLE, is_one_machine
from magnetar.spark.shipping.python_path import VARIABLE, with_quick_start
from magnetar.spark.source.origin import archive_of_this

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def register(session: "SparkSession") -> None:
    """Makes `format("pulsar")` this project's data source in a session, also one of Spark Connect.

    Executors, and the processes that plan queries, need nothing of this project: where it may be missing there, a
    bundle of what this process runs is sent to them (SparkContext.addPyFile, SparkSession.addArtifacts). On one machine
    they run the Python of this process, unless PYSPARK_PYTHON names another one, and import pyspark from its
    environment, which is quicker. Batch queries are split for the cores that the cluster has now. Raises
    LibraryMissing when a bundle is needed and cannot be made here.
    """
    from magnetar.spark.source import PulsarDataSource

    if type(session).__module__.startswith("pyspark.sql.connect"):
        with tempfile.TemporaryDirectory() as folder:
            session.addArtifacts(str(_bundle_file(Path(folder))), pyfile=True)
    else:
        prepare(session.sparkContext)
    session.dataSource.register(PulsarDataSource)


def prepare(context: "SparkContext") -> None:
    """Makes the processes that Spark starts from now on find this project, and their Python."""
    from magnetar.spark.source.data_source import CORES_VARIABLE

    context.environment[CORES_VARIABLE] = str(context.defaultParallelism)
    own = archive_of_this()
    one_machine = is_one_machine(context.master or "")
    if one_machine and PYTHON_VARIABLE not in os.environ:
        context.pythonExec = sys.executable
    path = with_quick_start(context.environment.get(VARIABLE, ""), context.pythonExec if one_machine else "")
    if path:
        context.environment[VARIABLE] = path
    is_sent = own is not None and own.name in (context._python_includes or ())
    if not is_sent and (own is not None or not one_machine):
        context.addPyFile(str(_bundle_file(Path(context._temp_dir))))


def _bundle_file(folder: Path) -> Path:
    """Returns the bundle that this process runs from, or one that is made in `folder`."""
    own = archive_of_this()
    if own is not None:
        return own
    bundle = make_bundle()
    path = folder / bundle.name
    path.write_bytes(bundle.content)
    return path
