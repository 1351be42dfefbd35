"""Makes a table of the latest row of each key from keyed topics or change streams. A delete in the topic removes the
row.

Each micro-batch is reduced to the last change of each key. The job applies those changes that are younger than the
table's row of the key. So the outcome depends on the messages alone, and not on the batches that hold them or on how
often the messages come.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.types import StructType

from magnetar.spark.jobs.job_arguments import add_number, add_source, add_storage, add_stream, parser, source_options
from magnetar.spark.jobs.job_outcome import JobOutcome, finish
from magnetar.spark.jobs.job_places import hold_place, job_place, staging_place
from magnetar.spark.jobs.job_query import ends_now, run_query, stream
from magnetar.spark.jobs.job_session import guarded, session
from magnetar.spark.jobs.position_column import digits, position
from magnetar.spark.jobs.published_connector import connector_options
from magnetar.spark.jobs.snapshot.changes import (
    DELETED,
    KEY,
    LSN,
    POSITION,
    READ_OPTIONS,
    REASON,
    changes,
    check_envelope,
    latest,
    younger,
)
from magnetar.spark.jobs.snapshot.snapshot_stores import Snapshot, need_snapshot, open_snapshot
from magnetar.spark.jobs.storage.storage_rules import is_local
from magnetar.spark.jobs.tables.row_folders import write_folder
from magnetar.spark.jobs.tables.staging import FOLDER
from magnetar.spark.jobs.tables.table_rules import check_columns
from magnetar.spark.source.checkpoint import Checkpoint
from magnetar.spark.source.columns.metadata_columns import MESSAGE_ID, METADATA_TYPES, PROPERTIES, TOPIC
from magnetar.spark.source.columns.metadata_columns import VALUE as RAW_VALUE
from magnetar.spark.source.options import LATEST
from pulsar_proto.counted import counted

EXAMPLES = """\
  magnetar spark snapshot_table --service-url pulsar://127.0.0.1:6650 --topic users --path ./users --checkpoint ./ck
  magnetar spark snapshot_table … --format debezium --json-schema 'id long, name string' --key id --merge delta
read the default kind with:
  spark.read.parquet(f"{path}/version={json.load(open(path + '/_latest.json'))['version']:08d}")
"""


def main(argv: Sequence[str]) -> int:
    return guarded("snapshot_table", run, argv)


def options() -> ArgumentParser:
    made = parser("snapshot_table", "Keeps the latest row of each key as a table.", EXAMPLES)
    add_source(made)
    add_stream(made)
    add_storage(made)
    made.add_argument("--path", required=True, metavar="DIR", help="the table; for iceberg a warehouse folder")
    made.add_argument(
        "--merge",
        choices=["parquet-overwrite", "delta", "iceberg"],
        default="parquet-overwrite",
        help="into a new version of a Parquet folder (default), or into a table of that kind",
    )
    made.add_argument("--table", default="pulsar.snapshot", metavar="NS.NAME", help="iceberg: the table's name")
    made.add_argument(
        "--format", choices=["plain", "debezium"], default="plain", help="debezium: op, before and after of a change"
    )
    made.add_argument(
        "--json-schema", default="", metavar="DDL", help="columns of a row, where the topic's schema does not say"
    )
    made.add_argument("--key", default="", metavar="SQL", help="of the row's columns; default: the message's key")
    made.add_argument(
        "--order",
        choices=["ledger", "lsn"],
        default="ledger",
        help="what is younger: by place in the topic (default), or by place in Debezium's database",
    )
    made.add_argument("--parked", default="", metavar="DIR", help="messages that are no change; default PATH_parked")
    forgotten = "at the end forget old versions and deleted keys of that age"
    add_number(made, "--vacuum", float, default=None, metavar="HOURS", help=forgotten)
    made.add_argument("--check", action="store_true", help="at the end read the whole topic again and compare")
    return made


def run(argv: Sequence[str]) -> int:
    made = options()
    arguments = made.parse_args(argv)
    if arguments.check and arguments.starting == LATEST:
        made.error("--check reads the whole topic, and --starting latest leaves out its begin")
    began = time.monotonic()
    outcome = JobOutcome("snapshot_table")
    if arguments.order == "lsn" and arguments.format != "debezium":
        made.error("--order lsn needs --format debezium")
    if arguments.merge == "parquet-overwrite" and not is_local(arguments.path):
        made.error(
            f"--merge parquet-overwrite needs a local or mounted folder, for {arguments.path} take delta or iceberg"
        )
    spark = session(
        arguments,
        "snapshot_table",
        only_reads=not arguments.check and arguments.vacuum is None,
        checkpoint_anywhere=True,
        check_columns=lambda values: check_envelope(values, arguments),
        check_table=lambda: need_snapshot(arguments.merge, job_place(arguments, arguments.path), arguments.table),
    )
    ends = ends_now(arguments)
    frame = stream(spark, arguments, **(READ_OPTIONS if arguments.source == "python" else {}))
    checkpoint = Checkpoint(arguments.checkpoint)
    place, staging = job_place(arguments, arguments.path), staging_place(arguments, FOLDER)
    hold_place(arguments, place, "snapshot_table")  # nobody else may write between this run's reads and its writes
    snapshot = open_snapshot(spark, arguments.merge, place, arguments.table, staging=staging)
    job = SnapshotJob(snapshot, arguments, checkpoint, outcome)
    live = snapshot.live()
    wanted = stored(changes(frame, arguments), arguments).drop(DELETED).schema
    check_columns(None if live is None else live.schema, wanted, evolve=True)
    run_query(frame, job.batch, arguments, ends, outcome)
    if arguments.check:
        job.check(spark, wanted)
    if arguments.vacuum is not None:
        snapshot.forget(arguments.vacuum)
    live = snapshot.live()
    outcome.details["rows in the table"] = 0 if live is None else live.count()
    return finish(outcome, began, arguments.progress)


def stored(rows: DataFrame, arguments: Namespace) -> DataFrame:
    """Returns the changes, reduced to DELETED and the columns that a table stores."""
    internal = [POSITION, REASON, RAW_VALUE, "__key", "__eventTime", PROPERTIES]
    return rows.drop(*internal, *([] if arguments.order == "lsn" else [LSN]))


class SnapshotJob:
    """Applies the changes of micro-batches to a table, and compares the table with the topic at the end."""

    def __init__(self, snapshot: Snapshot, arguments: Namespace, checkpoint: Checkpoint, outcome: JobOutcome) -> None:
        self._snapshot = snapshot
        self._arguments = arguments
        self._checkpoint = checkpoint
        self._outcome = outcome

    def batch(self, frame: DataFrame, number: int) -> None:
        """Spark calls this with each micro-batch. The method applies the batch's changes, and parks messages that are
        no changes."""
        rows = changes(frame, self._arguments).persist()
        winners = self._winners(rows.where(F.col(REASON).isNull() & F.col(KEY).isNotNull())).persist()
        try:
            keyless = F.when(F.col(REASON).isNull() & F.col(KEY).isNull(), 1)
            counted = rows.agg(F.count("*"), F.count(REASON), F.count(keyless)).first()
            assert counted is not None
            read, parked, without_key = counted
            if parked:
                self._park(rows.where(F.col(REASON).isNotNull()), number)
            applied = winners.count()
            if applied:
                self._snapshot.apply(stored(winners, self._arguments))
                self._checkpoint.wrote(self._arguments.path)
            self._outcome.parked += parked
            self._outcome.written += applied
            self._outcome.skipped += read - parked - applied
            if without_key:
                self._outcome.details["without a key"] = self._outcome.details.get("without a key", 0) + without_key
        finally:
            winners.unpersist()
            rows.unpersist()

    def _winners(self, rows: DataFrame) -> DataFrame:
        """Returns the changes that have an effect on the table: the last change of each key, if it is younger than the
        newest change of that key in the table."""
        winners = latest(rows)
        for known in (self._snapshot.live(), self._snapshot.deleted()):
            if known is not None:
                winners = younger(winners, known if LSN in known.columns else known.withColumn(LSN, F.lit("")))
        return winners

    def _park(self, bad: DataFrame, number: int) -> None:
        """Writes messages that are no changes to a folder under the query's id, because batches of another checkpoint
        have the same numbers."""
        where = self._arguments.parked or f"{self._arguments.path.rstrip('/')}_parked"
        kept = [REASON, *(name for name in (RAW_VALUE, *METADATA_TYPES) if name in bad.columns)]
        folder = f"query={self._checkpoint.query_id()}/ingest_batch={number:08d}"
        write_folder(bad.select(*kept), job_place(self._arguments, where).below(folder))
        self._outcome.details["parked in"] = where

    def check(self, spark: SparkSession, columns: StructType) -> None:
        """Reads the topic again by a batch query, up to the last message that the checkpoint has committed, and
        compares the table with the result. Differences become a problem of the outcome. Keys whose messages the topic
        no longer holds cannot be compared, and are counted."""
        committed = self._checkpoint.committed()
        if not committed:
            return
        given = source_options(self._arguments)
        given.pop("predefinedSubscription", None)
        given = given | READ_OPTIONS if self._arguments.source == "python" else connector_options(given)
        rows = changes(spark.read.format("pulsar").options(**given).load(), self._arguments)
        reached = [(F.col(TOPIC) == name) & (F.col(POSITION) <= digits(end)) for name, end in committed.items()]
        good = F.col(REASON).isNull() & F.col(KEY).isNotNull()
        rows = rows.where(reduce(Column.__or__, reached) & good).persist()
        begins = rows.groupBy(TOPIC).agg(F.min(POSITION).alias("_begin"))
        expected = stored(latest(rows).where(~F.col(DELETED)), self._arguments).select(*columns.names)
        live = self._snapshot.live()
        held = spark.createDataFrame([], columns) if live is None else live.select(*columns.names)
        there = held.withColumn(POSITION, position(MESSAGE_ID)).join(begins, TOPIC, "left")
        older = F.col("_begin").isNull() | (F.col(POSITION) < F.col("_begin"))
        gone = there.where(older).count()
        wrong, total = _differing(there.where(~older).select(*columns.names), expected), expected.count()
        rows.unpersist()
        self._outcome.details["keys compared"] = total
        if gone:
            self._outcome.details["keys older than the topic"] = gone
        if wrong:
            self._outcome.problems.append(f"{counted(wrong, 'row differs', 'rows differ')} from what the topic says")


def _differing(one: DataFrame, other: DataFrame) -> int:
    """Returns how many rows are in only one of the two frames. Rows are compared as text, because Spark cannot compare
    maps."""
    first, second = (
        frame.select(F.to_json(F.struct(*(F.col(f"`{name}`") for name in frame.columns))).alias("row"))
        for frame in (one, other)
    )
    return first.exceptAll(second).count() + second.exceptAll(first).count()


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
