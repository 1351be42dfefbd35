"""Writes topics to a table, each message once. The table is a Parquet folder, a Delta table (through deltalake) or an
Iceberg table (through pyiceberg).

A micro-batch is written under its number and the checkpoint's id. So when Spark repeats a batch after a kill, the table
recognises that it has the batch already. Messages that do not fit their topic's schema are parked: the job writes them
to a folder beside the table.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.jobs.cluster_cores import spread_over_rows
from magnetar.spark.jobs.job_arguments import (
    add_source,
    add_storage,
    add_stream,
    chosen_columns,
    parser,
    service_options,
)
from magnetar.spark.jobs.job_outcome import INTERRUPTED, JobOutcome, finish
from magnetar.spark.jobs.job_places import job_place
from magnetar.spark.jobs.job_query import ends_now, run_query, stream
from magnetar.spark.jobs.job_session import guarded, session
from magnetar.spark.jobs.lake.id_check import began_before, lacking, look_at
from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import is_local
from magnetar.spark.jobs.tables.row_folders import read_folders, write_folder
from magnetar.spark.jobs.tables.table import Table, need_table, open_table
from magnetar.spark.jobs.tables.table_rules import check_columns
from magnetar.spark.source.checkpoint import Checkpoint
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.columns.metadata_columns import MESSAGE_ID, METADATA_TYPES, TOPIC
from magnetar.spark.source.options import EARLIEST, LATEST, Options, address_of
from pulsar_proto.counted import counted

CORRUPT = "__corrupt"
IDS = pa.schema([(TOPIC, pa.string()), (MESSAGE_ID, pa.binary())])
PERIODS = {"day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}
PERIOD_COLUMN = "message_{}"
COMPACT_BATCHES = 100
"""With --compact-files, a run compacts the table after every COMPACT_BATCHES batches, and once more at its end."""
EXAMPLES = """\
  magnetar spark lake_ingest --service-url pulsar://127.0.0.1:6650 --topic orders --path ./orders --checkpoint ./ck
  magnetar spark lake_ingest … --format delta --partition-by day --trigger '30 seconds' --subscription lake
"""


def main(argv: Sequence[str]) -> int:
    return guarded("lake_ingest", run, argv)


def options() -> ArgumentParser:
    made = parser("lake_ingest", "Writes topics to a table, each message once.", EXAMPLES)
    add_source(made)
    add_stream(made)
    add_storage(made)
    made.add_argument("--format", choices=["parquet", "delta", "iceberg"], default="parquet", help="default: parquet")
    made.add_argument("--path", required=True, metavar="DIR", help="the table; for iceberg a warehouse folder")
    made.add_argument("--table", default="pulsar.messages", metavar="NS.NAME", help="iceberg: the table's name")
    made.add_argument(
        "--partition-by",
        choices=["none", *PERIODS],
        default="none",
        help="by event time, else publish time, in UTC: column message_day or message_hour",
    )
    made.add_argument("--columns", default="", metavar="C,C", help="value columns to keep; default all")
    made.add_argument(
        "--drop-metadata", action="store_true", help="leave out the __… columns; then ids are not checked"
    )
    made.add_argument(
        "--schema", choices=["evolve", "fixed"], default="fixed", help="new columns: taken in, or an error (default)"
    )
    made.add_argument("--parked", default="", metavar="DIR", help="messages that do not fit; default PATH_parked")
    made.add_argument(
        "--compact-files", action="store_true", help=f"merge small files at the end, or every {COMPACT_BATCHES} batches"
    )
    made.add_argument(
        "--check",
        choices=["run", "table", "none"],
        default="run",
        help="whose ids are looked at in the end: what this run added (default), or all of the table",
    )
    return made


def run(argv: Sequence[str]) -> int:
    made = options()
    arguments = made.parse_args(argv)
    if arguments.compact_files and arguments.format == "iceberg":
        made.error("--compact-files: pyiceberg cannot rewrite files; leave it to the engine that reads the table")
    if arguments.compact_files and arguments.format == "parquet" and not is_local(arguments.path):
        made.error(f"--compact-files needs a local or mounted folder, for {arguments.path} take --format delta")
    began = time.monotonic()
    outcome = JobOutcome("lake_ingest")
    by = "" if arguments.partition_by == "none" else PERIOD_COLUMN.format(arguments.partition_by)
    looks_at_table = arguments.compact_files or arguments.check == "table"
    needs = "" if arguments.format == "parquet" else f"--format {arguments.format}"
    spark = session(
        arguments,
        "lake_ingest",
        needs,
        only_reads=not looks_at_table,
        checkpoint_anywhere=True,
        check_columns=lambda values: chosen_columns(arguments.columns, values.fieldNames()),
        check_table=lambda: need_table(arguments.format, job_place(arguments, arguments.path), arguments.table),
    )
    checkpoint = Checkpoint(arguments.checkpoint)
    ends = ends_now(arguments)
    more = {"columnNameOfCorruptRecord": CORRUPT} if arguments.source == "python" else {}
    frame = stream(spark, arguments, **more)
    table = open_table(spark, arguments.format, job_place(arguments, arguments.path), arguments.table, by=by)
    shape = partial(shaped, columns=arguments.columns, metadata=not arguments.drop_metadata, by=arguments.partition_by)
    check_columns(table.schema(), shape(frame).schema, evolve=arguments.schema == "evolve")
    ingest = Ingest(spark, table, shape, arguments, checkpoint, outcome)
    run_query(frame, ingest.batch, arguments, ends, outcome)
    unknown = not ends or INTERRUPTED in outcome.problems  # an interrupted batch may have read more than it wrote
    if not unknown and outcome.read != outcome.written + outcome.skipped + outcome.parked:
        outcome.problems.append(f"read {outcome.read}, but wrote {outcome.written} and parked {outcome.parked}")
    if arguments.check != "none" and not arguments.drop_metadata:
        ingest.check_ids()
    if arguments.compact_files:
        ingest.compact()
    ingest.count()
    return finish(outcome, began, arguments.progress)


def shaped(batch: DataFrame, *, columns: str, metadata: bool, by: str) -> DataFrame:
    """Returns a batch with the table's columns. Raises JobFailed for a column that the topic does not have."""
    kept = chosen_columns(columns, [name for name in batch.columns if name not in METADATA_TYPES and name != CORRUPT])
    if metadata:
        kept = [*kept, *(name for name in METADATA_TYPES if name in batch.columns)]
    selected: list[Column] = [F.col(f"`{name}`") for name in kept]
    if by != "none":
        time_of = F.coalesce("__eventTime", "__publishTime")
        selected.append(F.date_format(time_of, PERIODS[by]).alias(PERIOD_COLUMN.format(by)))
    return batch.select(*selected)


class Ingest:
    """Writes micro-batches, each once, and checks the table afterwards."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        shape: Callable[[DataFrame], DataFrame],
        arguments: Namespace,
        checkpoint: Checkpoint,
        outcome: JobOutcome,
    ) -> None:
        self._spark = spark
        self._table = table
        self._shape = shape
        self._arguments = arguments
        self._checkpoint = checkpoint
        self._outcome = outcome
        self._parked_to = job_place(arguments, arguments.parked or f"{arguments.path.rstrip('/')}_parked")
        self._parked: list[Place] = []
        self._files_before = set(table.files()) if arguments.check == "run" else set()
        self._committed_before = checkpoint.committed() if arguments.check == "run" else {}

    def batch(self, whole: DataFrame, number: int) -> None:
        """Spark calls this with each micro-batch. The method parks the messages that do not fit, and writes the
        rest."""
        if CORRUPT not in whole.columns:
            self._write(self._shape(whole), number)
        else:
            whole.persist()
            try:
                self._park(whole.where(F.col(CORRUPT).isNotNull()), number)
                self._write(self._shape(whole.where(F.col(CORRUPT).isNull())), number)
            finally:
                whole.unpersist()
        if self._arguments.compact_files and number % COMPACT_BATCHES == COMPACT_BATCHES - 1:
            self.compact()

    def _park(self, bad: DataFrame, number: int) -> None:
        parked = bad.count()
        if parked:
            kept = [CORRUPT, *(name for name in METADATA_TYPES if name in bad.columns)]
            # another checkpoint's batches, of another topic in the same table, have the same numbers
            folder = self._parked_to.below(f"query={self._checkpoint.query_id()}/ingest_batch={number:08d}")
            write_folder(bad.select(*kept), folder)
            self._parked.append(folder)
            self._outcome.details["parked in"] = self._parked_to.url
        self._outcome.parked += parked

    def _write(self, rows: DataFrame, number: int) -> None:
        written = self._table.write(rows, self._checkpoint.query_id(), number)
        if written is None:
            self._outcome.skipped += rows.count()
            self._outcome.details["batches written before"] = self._outcome.details.get("batches written before", 0) + 1
        else:
            self._outcome.written += written
        if written != 0:
            self._checkpoint.wrote(self._arguments.path)

    def compact(self) -> None:
        """Merges small files. Afterwards this run's rows can no longer be told from older ones, so the check at the end
        looks at all of the table."""
        gone = self._table.compact(self._spark)
        self._outcome.details["files merged away"] = self._outcome.details.get("files merged away", 0) + gone
        self._files_before, self._committed_before = set(), {}

    def count(self) -> None:
        """Adds to the outcome how many files and rows the table has."""
        self._outcome.details["files in the table"] = len(self._table.files())
        self._outcome.details["rows in the table"] = self._table.count()

    def check_ids(self) -> None:
        """Checks that no message is in the table twice, and that no message is missing between two messages of the
        table. Faults become problems of the outcome."""
        problems = self._outcome.problems
        new = sorted(set(self._table.files()) - self._files_before)
        everything = not self._files_before
        if not new:
            return
        rows = self._table.rows(self._spark, new, [TOPIC, MESSAGE_ID])
        parked = read_folders(self._spark, [self._parked_to] if everything else self._parked, IDS)
        if parked is not None:
            rows = rows.unionByName(parked.distinct())  # a message may have been parked for an earlier table, too
        spread_over_rows(self._spark, self._table.count() if everything else self._outcome.written)
        ids = look_at(rows, cut=self._arguments.starting not in (EARLIEST, LATEST) or not everything)
        self._outcome.details["ids looked at"] = ids.rows
        if ids.twice:
            problems.append(f"{counted(ids.twice, 'message is', 'messages are')} in the table twice")
        problems += began_before(ids.begins, self._committed_before)
        if ids.holes:
            address = address_of(Options(service_options(self._arguments)))
            client = PulsarClient(address.service_url, address.login)
            try:
                missing = lacking(client, ids.holes)
            finally:
                client.close()
            problems += [f"the topic has messages in {hole} that the table lacks" for hole in missing]


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
