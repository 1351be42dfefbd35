"""The command `magnetar spark JOB …`, which lists the jobs or runs one of them.

Each job is a module with a function `main(arguments)`. The module is imported only when the job is to run, so that the
list of jobs needs no Spark.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from magnetar.spark.jobs.job_outcome import INTERRUPTED


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One job: the module that has the job's name, in `package`, which is a folder beside this file."""

    package: str
    summary: str


JOBS = {
    "lake_ingest": SparkJob("lake", "topics to Parquet, Delta or Iceberg tables, each message once"),
    "window_agg": SparkJob("window", "windows and sessions by event time, late messages to a side table"),
    "snapshot_table": SparkJob("snapshot", "the latest row of each key, also from Debezium's changes, with deletes"),
    "replay": SparkJob("replay", "messages of a range, or dead letters, to a topic again"),
    "audit": SparkJob("audit", "storage, backlog and ack holes a subscription; orphans of Spark's connectors"),
}

PREPARE = "--prepare"


def module_of(name: str) -> str:
    """Returns the full name of the module whose `main(arguments)` is the job."""
    return f"{__package__}.{JOBS[name].package}.{name}"


def main(argv: Sequence[str]) -> int:
    """Runs the job that `argv` names, or lists the jobs. Returns the exit code: 0 when the job is done, 1 when it or
    one of its checks failed, 2 for wrong usage."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: magnetar spark JOB [options]      (magnetar spark JOB --help lists them)")
        print("       magnetar spark --path JOB         (its file, for spark-submit)")
        print("       magnetar spark --bundle FILE.zip  (a zip for spark-submit --py-files)")
        print("       magnetar spark --prepare          (once, so that jobs start sooner)\n\njobs:")
        for name, job in JOBS.items():
            print(f"  {name:15} {job.summary}")
        return 0 if argv else 2
    is_path = argv[0] == "--path" and len(argv) == 2
    name, *rest = argv[1:] if is_path else argv
    if name not in JOBS and name != PREPARE:
        print(f"magnetar spark: no job '{name}'; there are {', '.join(JOBS)}", file=sys.stderr)
        return 2
    if is_path:
        print(Path(__file__).parent / JOBS[name].package / f"{name}.py")
        return 0
    try:
        module = import_module(f"{__package__}.prepare" if name == PREPARE else module_of(name))
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        print(f"magnetar spark: {missing} is missing; install it with: pip install 'magnetar[lake]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"magnetar spark {name}: {INTERRUPTED}", file=sys.stderr)
        return 1
    code: int = module.main(rest)
    return code
