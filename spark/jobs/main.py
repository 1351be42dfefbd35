"""`magnetar spark JOB …`: which jobs there are, and how one is run.

Each job is a module with `main(arguments)`, imported only when it is asked for: help needs no Spark.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

JOBS = {
    "lake_ingest": "topics to Parquet, Delta or Iceberg tables, each message once",
    "window_agg": "windows and sessions by event time, late messages to a side table",
    "snapshot_table": "the latest row of each key, also from Debezium's changes, with deletes",
    "replay": "messages of a range, or dead letters, to a topic again",
    "audit": "storage, backlog and ack holes a subscription; orphans of Spark's connectors",
}

FOLDERS = {
    "lake_ingest": "lake",
    "window_agg": "window",
    "snapshot_table": "snapshot",
    "replay": "replay",
    "audit": "audit",
}
"""The package of each job; its module bears the job's name."""


def module_of(name: str) -> str:
    """The full name of the module whose `main(arguments)` is the job."""
    return f"{__package__}.{FOLDERS[name]}.{name}"


def main(argv: Sequence[str]) -> int:
    """Returns the exit code: 0 done, 1 failed or a check failed, 2 wrong usage."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: magnetar spark JOB [options]      (magnetar spark JOB --help lists them)")
        print("       magnetar spark --path JOB         (its file, for spark-submit)\n\njobs:")
        for name, summary in JOBS.items():
            print(f"  {name:14} {summary}")
        return 0 if argv else 2
    is_path = argv[0] == "--path" and len(argv) == 2
    name, *rest = argv[1:] if is_path else argv
    if name not in JOBS:
        print(f"magnetar spark: no job '{name}'; there are {', '.join(JOBS)}", file=sys.stderr)
        return 2
    if is_path:
        print(Path(__file__).parent / FOLDERS[name] / f"{name}.py")
        return 0
    try:
        job = import_module(module_of(name))
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        print(f"magnetar spark: {missing} is missing; install it with: pip install 'magnetar[lake]'", file=sys.stderr)
        return 1
    code: int = job.main(rest)
    return code
