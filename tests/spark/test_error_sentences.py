"""The one sentence of a Spark error that a person reads."""

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from magnetar.spark.jobs.error_sentences import in_job_options, sentence_of
from magnetar.spark.jobs.published_connector import NO_JAR_SENTENCE

PYTHON = "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n  File x\n    raise\n"
FULL_DISK = """\
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/t. SQLSTATE: 58030
	at org.apache.spark.Some.java(Some.scala:1)
Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
	at some.Java.line(Some.java:2)
		Caused by: java.io.IOException: No space left on device
	... 3 more
"""
FULL_DISK_SENTENCE = (
    "SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/t. "
    "Cause: IOException: No space left on device"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("one\n  at some.Java.line", "one"),
        ("", "PySparkException"),
        ("Failed to find data source: pulsar. Please find packages at", NO_JAR_SENTENCE),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: pulsar. Make sure", NO_JAR_SENTENCE),
        ("An error occurred while calling o55.load.\n: java.lang.Exception: no\n\tat x", "Exception: no"),
        (f"{PYTHON}TypeError: wrong\n\n\tat java", "TypeError: wrong"),
        (
            f"{PYTHON}KeyError: 1\nmagnetar.spark.source.ranges.continuity_rules.DataLoss: gone\n",
            "DataLoss: gone",
        ),
        (
            f"{PYTHON}ModuleNotFoundError: No module named 'obstore'\n"
            "magnetar.spark.jobs.storage.storage_rules.StorageFault: s3://a: the machine b lacks obstore\n",
            "StorageFault: s3://a: the machine b lacks obstore",
        ),
        (f"An error occurred while calling o61.parquet.\n{FULL_DISK}", FULL_DISK_SENTENCE),
        (
            f"{PYTHON}py4j.protocol.Py4JJavaError: An error occurred while calling o46.parquet.\n{FULL_DISK}\n"
            "Caused by: py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback",
            FULL_DISK_SENTENCE,
        ),
        (
            ": org.apache.hadoop.fs.FSError: java.io.IOException: full\n\tat x\nCaused by: java.io.IOException: full",
            "FSError: java.io.IOException: full",
        ),
        (f"{PYTHON}ValueError: host a.b.Example: x is no URL", "ValueError: host a.b.Example: x is no URL"),
    ],
)
def test_an_error_is_told_by_what_happened(text: str, sentence: str) -> None:
    assert sentence_of(PySparkException(text)) == sentence


def test_a_python_process_that_starts_too_slowly_is_told_with_what_to_do() -> None:
    slow = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back. SQLSTATE: X"
    assert sentence_of(PySparkException(f"{slow}\n=== Streaming Query ===\n")) == (
        "Spark waited ten seconds for a Python process that it started: is this machine very busy? Start again"
    )
    assert sentence_of(PySparkException(f"{slow}\n{PYTHON}TypeError: wrong\n")) == "TypeError: wrong"


def test_java_that_does_not_start_is_told_with_what_to_do() -> None:
    said = sentence_of(PySparkException("[JAVA_GATEWAY_EXITED] Java gateway process exited"))
    assert said is not None
    assert said.startswith("Spark could not start Java: is Java 17")


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    assert sentence_of(KeyError("x")) is None
    assert sentence_of(Py4JError("x")) == "x"


def test_options_are_named_as_the_jobs_have_them() -> None:
    assert in_job_options("… failOnDataLoss=false goes on") == "… --fail-on-data-loss false goes on"
