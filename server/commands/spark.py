"""`magnetar spark JOB`: runs one of the Spark jobs. A job is imported only when somebody asks for it."""

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command

if TYPE_CHECKING:
    from magnetar.server.commands.arguments import Commands

JOBS_AND_EXAMPLES = """\
jobs:
  lake_ingest     topics to Parquet, Delta or Iceberg tables, each message once
  window_agg      windows and sessions by event time, late messages to a side table
  snapshot_table  the latest row of each key, also from Debezium's changes, with deletes
  replay          messages of a range, or dead letters, to a topic again
  audit           storage, backlog and ack holes a subscription; orphans of Spark's connectors

examples:
  magnetar spark --help                                # this
  magnetar spark lake_ingest --help                    # a job's options
  magnetar spark lake_ingest --service-url pulsar://127.0.0.1:6650 --topic orders --path ./orders --checkpoint ./ck
  magnetar spark --bundle magnetar.zip                 # one file that executors and drivers need, for --py-files
  magnetar spark --prepare                             # once: from then on jobs start sooner
  spark-submit --master yarn --py-files magnetar.zip "$(magnetar spark --path lake_ingest)" --service-url …
jobs need:  pip install 'magnetar[lake]'
"""


def add_parser(commands: "Commands") -> None:
    spark = add_command(
        commands,
        "spark",
        summary="run a Spark job: lake_ingest, window_agg, …",
        description="Runs a Spark job that reads or writes topics of a Pulsar service.",
        epilog=JOBS_AND_EXAMPLES,
    )
    what = spark.add_mutually_exclusive_group()
    what.add_argument("--path", default="", metavar="JOB", help="print where a job's file is, for spark-submit")
    what.add_argument(
        "--bundle", default="", metavar="FILE", help="write a zip of data source and jobs, for executors without them"
    )
    what.add_argument(
        "--prepare",
        action="store_true",
        help="put the classes of Java's that Spark needs into an archive (190 MB in the user's cache folder)",
    )
    what.add_argument("job", nargs="?", default="--help", metavar="JOB", help="one of the jobs below")
    spark.add_argument("options", nargs=argparse.REMAINDER, metavar="…", help="the job's own options")
    spark.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.bundle:
        shipping = import_module("magnetar.spark.shipping.bundle")
        written: int = shipping.write_bundle(arguments.bundle)
        return written
    jobs = import_module("magnetar.spark.jobs.main")
    try:
        asked = (
            ["--prepare"]
            if arguments.prepare
            else ["--path", arguments.path]
            if arguments.path
            else [arguments.job, *arguments.options]
        )
        code: int = jobs.main(asked)
    except KeyboardInterrupt:
        print("magnetar spark: interrupted", file=sys.stderr)
        return 130
    return code
