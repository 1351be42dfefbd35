"""The Spark session of a job, from the checks before Java starts to the end of Java."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark
from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from magnetar.spark.jobs.class_archive import java_options
from magnetar.spark.jobs.cluster_cores import spread_over_cores
from magnetar.spark.jobs.error_sentences import in_job_options, sentence_of
from magnetar.spark.jobs.folder_lock import release_folders
from magnetar.spark.jobs.job_arguments import (
    AVAILABLE_NOW,
    check_sql,
    check_stream,
    service_options,
    stream_options,
)
from magnetar.spark.jobs.job_outcome import INTERRUPTED, JobFailed, JobOutcome, NothingToDo, finish
from magnetar.spark.jobs.job_places import bring_checkpoint, check_places
from magnetar.spark.jobs.job_query import has_nothing_to_do
from magnetar.spark.jobs.older_pyspark import add_missing_functions
from magnetar.spark.jobs.precheck import check_checkpoint, check_service, check_targets, check_topics, value_columns
from magnetar.spark.jobs.progress import CtrlC, Teller
from magnetar.spark.jobs.published_connector import check_versions, connector_options, end_java
from magnetar.spark.shipping.cluster_rules import PYTHON_VARIABLE, workers_python
from magnetar.spark.shipping.python_path import VARIABLE as PATH_VARIABLE
from magnetar.spark.shipping.python_path import with_quick_start
from magnetar.spark.source.checkpoint import Checkpoint

AVAILABLE_NOW_SETTING = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
"""Without this setting an available-now run over a source in Python is a single batch in Spark 4.1. If the job was
killed, that single batch would repeat the interrupted batch and read nothing after that."""
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's options for a run that ends. Without the slower of Java's two compilers the first batch of `lake_ingest` takes
14 s of CPU instead of 21 s, and a run over a million messages of 100 bytes 37 s instead of 43 s."""
JAVA_SETTING = "spark.driver.extraJavaOptions"
LOG_VARIABLE = "LOG4J_CONFIGURATION_FILE"
"""The variable that tells Java's log4j the file of its settings. A Java option would be lost where the user sets
JAVA_SETTING."""
TARGETS = ("to_topic", "park_topic", "out_topic", "late_topic")
"""The options that name topics which a job writes."""
QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The loggers by which pyspark prints Spark's errors about a query, as JSON on stderr (PySparkException)."""
CONNECTOR_SETTING = "spark.magnetar.connector"
"""Marks a session in which a job reads through the published connector; `leave` looks for this setting."""


def session(
    arguments: argparse.Namespace,
    job: str,
    needs: str = "",
    *,
    only_reads: bool = False,
    checkpoint_anywhere: bool = False,
    check_columns: Callable[[StructType], object] | None = None,
    check_table: Callable[[], object] | None = None,
) -> SparkSession:
    """Returns the running session of spark-submit, or starts one. Options, service and topics are checked before Java
    starts, because the start of Java takes many seconds. `needs` names the part of the job that needs pyspark 4.0 (see
    `check_versions`). A job that `only_reads` what came since its last run ends here when nothing came. With
    `checkpoint_anywhere` the job takes a checkpoint at a URL, too. `check_columns` gets the columns of the topics'
    values, and raises when the job's options do not suit them. `check_table` is called when the checkpoint has written
    to a table, and raises when the table is gone. Raises JobFailed, NothingToDo, and the errors that `check_columns`,
    `check_table` and the functions of `precheck` and `job_places` raise."""
    source = getattr(arguments, "source", "python")
    check_versions(source, pyspark.__version__, needs)
    settings = _given_settings(arguments)
    check_sql(arguments)
    if hasattr(arguments, "trigger"):
        check_stream(arguments)
    check_places(arguments)
    check_service(service_options(arguments), tell=arguments.progress == "text")
    check_targets(service_options(arguments), (getattr(arguments, name, "") for name in TARGETS))
    if hasattr(arguments, "pattern"):
        if checkpoint_anywhere:
            bring_checkpoint(arguments, job)
        _check_query(arguments, job, check_columns)
        if check_table is not None and Checkpoint(arguments.checkpoint).has_written():
            check_table()
        if only_reads and has_nothing_to_do(arguments):
            raise NothingToDo(arguments.progress)
    is_submitted = "SPARK_ENV_LOADED" in os.environ
    if PYTHON_VARIABLE not in os.environ:
        master = SparkConf().get("spark.master") if is_submitted else settings.get("spark.master", arguments.master)
        _choose_python(master or "")
    builder = SparkSession.builder.appName(f"magnetar-{job}")
    if SparkSession.getActiveSession() is None and not is_submitted:
        start_python_sooner()
        builder = builder.master(arguments.master)
        builder = make_quiet(builder).config("spark.driver.memory", "1g")
        ends = getattr(arguments, "trigger", AVAILABLE_NOW) == AVAILABLE_NOW
        java = [*([QUICK_START] if ends else []), *java_options()]
        if java:
            builder = builder.config(JAVA_SETTING, " ".join(java))
    builder = builder.config("spark.sql.session.timeZone", "UTC").config(AVAILABLE_NOW_SETTING, "true")
    for name, value in settings.items():
        builder = builder.config(name, value)
    teller = Teller(arguments.progress, job)
    teller.state("starting", "starting Spark, which takes some seconds …")
    with CtrlC() as ctrl_c:  # a Java whose start is broken off would outlive the job
        made = builder.getOrCreate()
    if ctrl_c.pressed:
        raise KeyboardInterrupt
    teller.state("running", f"Spark {made.version} runs")
    add_missing_functions()
    spread_over_cores(made)
    made.conf.set(CONNECTOR_SETTING, str(source == "connector").lower())
    if source == "python":
        from magnetar.spark.shipping.registration import register  # pyspark before 4.1 has no sources of this kind

        register(made)
    return made


def make_quiet(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Adds the settings of a session without Spark's web pages, progress bars and log. The log's settings also go into
    this process's environment, from which Java takes them, unless the user has settings of his own for it."""
    if not {"SPARK_HOME", "SPARK_CONF_DIR"} & set(os.environ):
        os.environ.setdefault(LOG_VARIABLE, Path(__file__).with_name("log4j2.properties").as_uri())
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    return builder.config("spark.log.level", "FATAL")


def _check_query(arguments: argparse.Namespace, job: str, check_columns: Callable[[StructType], object] | None) -> None:
    """Checks the topics, columns and checkpoint of a job's query."""
    given = stream_options(arguments)
    if arguments.source == "connector":
        connector_options(given)
    checkpoint = Checkpoint(arguments.checkpoint)
    check_topics(given, endless=arguments.trigger != AVAILABLE_NOW, begins=not checkpoint.planned())
    copy = getattr(arguments, "checkpoint_copy", None)
    check_checkpoint(given, checkpoint, job, arguments.checkpoint if copy is None else copy.place.url)
    if check_columns is not None:
        check_columns(value_columns(given))


def _given_settings(arguments: argparse.Namespace) -> dict[str, str]:
    settings = {}
    for pair in arguments.spark_conf:
        name, equals, value = pair.partition("=")
        if not equals:
            raise JobFailed(f"--spark-conf {pair}: expected KEY=VALUE")
        settings[name] = value
    return settings


def _choose_python(master: str) -> None:
    """Names the Python of Spark's workers, for a user who has named none. If that is no path, this process's own Python
    comes first on the PATH from here on, where Java finds it for the driver's workers."""
    chosen = workers_python(master, sys.executable, sys.version_info[:2])
    os.environ[PYTHON_VARIABLE] = chosen
    if not os.path.isabs(chosen):
        os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


def start_python_sooner() -> None:
    """Makes the Python processes that Java starts begin sooner; see `with_quick_start`."""
    path = with_quick_start(os.environ.get(PATH_VARIABLE, ""), os.environ[PYTHON_VARIABLE])
    if path:
        os.environ[PATH_VARIABLE] = path


def leave(code: int) -> int:
    """Returns `code`, the exit code of the job; `guarded` calls this function when a job's body has ended. If the job
    read through the connector in spark-submit, also ends the Java program; see `end_java`."""
    running = SparkSession.getActiveSession() if "SPARK_ENV_LOADED" in os.environ else None
    if running is not None and running.conf.get(CONNECTOR_SETTING, "") == "true":
        end_java(running, code)
    return code


def guarded(job: str, run: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int:
    """Runs a job's body and returns its exit code. An error, and Ctrl-C before the job's query began, become one
    sentence on stderr, and exit code 1. An error that is the program's own fault is raised, with its traceback."""
    began = time.monotonic()
    logging.getLogger().addFilter(_is_no_interrupt)
    _quiet_loggers()
    try:
        code = leave(run(argv))
    except NothingToDo as nothing:
        return finish(JobOutcome(job), began, str(nothing))
    except Exception as error:
        said = str(error) if isinstance(error, (JobFailed, ValueError, OSError)) else sentence_of(error)
        if said is None:
            raise
        print(f"magnetar spark {job}: {in_job_options(said)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"magnetar spark {job}: {INTERRUPTED}", file=sys.stderr)
        return 1
    finally:
        release_folders()
        logging.getLogger().removeFilter(_is_no_interrupt)
    return code


def _quiet_loggers() -> None:
    """Keeps back what py4j and pyspark log of errors that they raise as well, and that become a sentence in
    `guarded`."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # pyspark 3 has no such loggers
        return
    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Keeps back what py4j logs, with a traceback, when Ctrl-C breaks off a call to Java: `guarded` says it in a
    sentence."""
    return not record.getMessage().startswith("KeyboardInterrupt while sending command")
