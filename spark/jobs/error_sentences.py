"""Turns an error of Spark, which has many lines in three languages, into the one sentence that says what happened."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.published_connector import NO_JAR, NO_JAR_SENTENCE

_JOB_OPTIONS = {
    "failOnDataLoss=false": "--fail-on-data-loss false",
    "option startingOffsets": "--starting",
    "option topicsPattern": "--pattern",
    "option maxOffsetsPerTrigger": "--max-messages",
    "option maxBytesPerTrigger": "--max-bytes",
    "ption predefinedSubscription": "ption --subscription",
}
_PACKAGES_WITH_SENTENCES = (
    f"{__package__.removesuffix('.jobs')}.", "pulsar_proto.", "pyspark.", "py4j.", "pyiceberg.", "sqlalchemy.",
    "_internal.",  # the name of deltalake's native package
)  # fmt: skip
"""The packages whose errors are shown as one sentence. Other errors are the program's own faults and keep their
traceback."""
_OURS = ("magnetar.", "pulsar_proto.", "ValueError")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Failed|Fault|Loss|Option|Value|NotFound): ")
"""Matches the last line of a Python traceback."""
_CALL_TO_JAVA = "py4j."
_CAUSED_BY = "Caused by: "
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_PACKAGE = re.compile(r"^(?:[\w$]+\.)+(?=[A-Z]\w*: )")
"""Matches the package before the name of an error."""


_LATE_PYTHON = "Python worker failed to connect back"
"""What Spark says when a Python process that it started does not connect within ten seconds (PythonWorkerFactory)."""


def in_job_options(sentence: str) -> str:
    """Returns a sentence in which the names of the data source's options are replaced by those of the job's options."""
    for option, ours in _JOB_OPTIONS.items():
        sentence = sentence.replace(option, ours)
    return sentence


@contextmanager
def naming_option(option: str, sql: str, columns: str = "") -> Iterator[None]:
    """Surrounds calls to Spark with the SQL that an option gave. Where Spark cannot make sense of it, raises JobFailed,
    which names the option and, if the caller gives them, the `columns` that there are."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        if not sql:
            raise
        said = str(error).strip().splitlines()[0]
        raise JobFailed(f"{option} '{sql}': {said}{columns and f' Columns are {columns}'}") from None


def sentence_of(error: Exception) -> str | None:
    """Returns the sentence that describes an error, or None when the error is a fault of the program.

    When Spark's error has a Python traceback in it, the sentence is the line with the Python error. If there are
    several such lines, the first error of this project is preferred. For a Java error, the sentence says what failed,
    and names the innermost cause. For any other error, the sentence is the error's first line.
    """
    if not f"{type(error).__module__}.".startswith(_PACKAGES_WITH_SENTENCES):
        return None
    text = str(error)
    if "JAVA_GATEWAY_EXITED" in text or "Java gateway process exited" in text:
        return "Spark could not start Java: is Java 17 or newer installed, or JAVA_HOME wrong?"
    if _LATE_PYTHON in text and "Traceback (most recent" not in text:
        return "Spark waited ten seconds for a Python process that it started: is this machine very busy? Start again"
    if NO_JAR.search(text):
        return NO_JAR_SENTENCE
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("An error occurred while")]
    raised = [line for line in lines if _RAISED.match(line)] if "Traceback (most recent" in text else []
    ours = [line for line in raised or lines if line.startswith(_OURS)]
    if ours:
        said = ours[0]
    elif raised and not raised[0].startswith(_CALL_TO_JAVA):
        said = raised[0]
    else:
        said = _of_java(lines) or type(error).__name__
    return _PACKAGE.sub("", said)


def _of_java(lines: list[str]) -> str:
    """Takes the lines of a Java error and returns what failed and why. The line that says what failed begins with the
    colon that py4j puts there."""
    said = next((line[2:] for line in lines if line.startswith(": ")), lines[0] if lines else "")
    said = _SQLSTATE.sub("", said)
    causes = [line.strip() for line in lines]
    causes = [line.removeprefix(_CAUSED_BY) for line in causes if line.startswith(_CAUSED_BY)]
    causes = [cause for cause in causes if not cause.startswith(_CALL_TO_JAVA)]
    if not causes or causes[-1] in said:
        return said
    return f"{said} Cause: {_PACKAGE.sub('', causes[-1])}"
