"""Topics to a table, each message once: Parquet folders, Delta through deltalake, Iceberg through pyiceberg.

A micro-batch is written under its number and the checkpoint's id, so that a batch which is repeated after a kill
replaces or skips what it wrote before. Messages that do not fit their topic's schema are parked beside the table.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from spark.jobs.common import (
    JobFailed,
    Outcome,
    add_source,
    add_stream,
    ends_now,
    finish,
    guarded,
    parser,
    run_query,
    session,
    stream,
)
from spark.jobs.tables import Table, open_table
from spark.source.checkpoint import Checkpoint
from spark.source.columns import MESSAGE_ID, METADATA_TYPES, TOPIC

CORRUPT = "__corrupt"
PERIODS = {"day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}
EXAMPLES = """\
  magnetar spark lake_ingest --service-url pulsar://127.0.0.1:6650 --topic orders --path ./orders --checkpoint ./ck
  magnetar spark lake_ingest … --format delta --partition-by day --trigger '30 seconds' --subscription lake
"""


def main(argv: Sequence[str]) -> int:
    return guarded("lake_ingest", run, argv)


def run(argv: Sequence[str]) -> int:
    made = parser("lake_ingest", "Writes topics to a table, each message once.", EXAMPLES)
    add_source(made)
    add_stream(made)
    made.add_argument("--format", choices=["parquet", "delta", "iceberg"], default="parquet")
    made.add_argument("--path", required=True, metavar="DIR", help="the table; for iceberg a warehouse folder")
    made.add_argument("--table", default="pulsar.messages", metavar="NS.NAME", help="iceberg: the table's name")
    made.add_argument(
        "--partition-by", choices=["none", *PERIODS], default="none", help="by event time, else publish time"
    )
    made.add_argument("--columns", default="", metavar="C,C", help="value columns to keep; default all")
    made.add_argument(
        "--drop-metadata", action="store_true", help="leave out the __… columns; then ids are not checked"
    )
    made.add_argument("--schema", choices=["evolve", "fixed"], default="fixed", help="whether new columns are taken in")
    made.add_argument("--parked", default="", metavar="DIR", help="messages that do not fit; default PATH_parked")
    arguments = made.parse_args(argv)
    began = time.monotonic()
    outcome = Outcome("lake_ingest")
    spark = session(arguments, "lake_ingest")
    ends = ends_now(arguments)
    more = {"columnNameOfCorruptRecord": CORRUPT} if arguments.source == "python" else {}
    frame = stream(spark, arguments, **more)
    table = open_table(spark, arguments.format, arguments.path, arguments.table, evolve=arguments.schema == "evolve")
    shape = partial(shaped, columns=arguments.columns, metadata=not arguments.drop_metadata, by=arguments.partition_by)
    parked = arguments.parked or f"{arguments.path.rstrip('/')}_parked"
    run_query(frame, Ingest(table, shape, parked, arguments.checkpoint, outcome).batch, arguments, ends, outcome)
    check(spark, table, outcome, ids=not arguments.drop_metadata)
    return finish(outcome, began, arguments.progress)


def shaped(batch: DataFrame, *, columns: str, metadata: bool, by: str) -> DataFrame:
    """The table's columns. Raises JobFailed for a column that is not there."""
    wanted = [name.strip() for name in columns.split(",") if name.strip()]
    values = [name for name in batch.columns if name not in METADATA_TYPES and name != CORRUPT]
    missing = sorted(set(wanted) - set(values))
    if missing:
        raise JobFailed(f"--columns {', '.join(missing)}: the topic has {', '.join(values)}")
    kept = wanted or values
    if metadata:
        kept = [*kept, *(name for name in METADATA_TYPES if name in batch.columns)]
    selected: list[Column] = [F.col(f"`{name}`") for name in kept]
    if by != "none":
        time_of = F.coalesce("__eventTime", "__publishTime")
        selected.append(F.date_format(time_of, PERIODS[by]).alias(by))
    return batch.select(*selected)


class Ingest:
    """Writes micro-batches, each at most once."""

    def __init__(
        self,
        table: Table,
        shape: Callable[[DataFrame], DataFrame],
        parked: str,
        checkpoint: str,
        outcome: Outcome,
    ) -> None:
        self._table = table
        self._shape = shape
        self._parked = parked
        self._checkpoint = Checkpoint(checkpoint)
        self._outcome = outcome

    def batch(self, whole: DataFrame, number: int) -> None:
        if CORRUPT not in whole.columns:
            self._write(self._shape(whole), number)
            return
        whole.persist()
        try:
            self._park(whole.where(F.col(CORRUPT).isNotNull()), number)
            self._write(self._shape(whole.where(F.col(CORRUPT).isNull())), number)
        finally:
            whole.unpersist()

    def _park(self, bad: DataFrame, number: int) -> None:
        parked = bad.count()
        if parked:
            kept = [CORRUPT, *(name for name in METADATA_TYPES if name in bad.columns)]
            bad.select(*kept).write.mode("overwrite").parquet(f"{self._parked}/batch={number:08d}")
        self._outcome.parked += parked

    def _write(self, rows: DataFrame, number: int) -> None:
        written = self._table.write(rows, self._checkpoint.query_id(), number)
        if written is None:
            self._outcome.details["batches written before"] = self._outcome.details.get("batches written before", 0) + 1
        else:
            self._outcome.written += written


def check(spark: SparkSession, table: Table, outcome: Outcome, *, ids: bool) -> None:
    """No message twice in the table, and what this run read is in it or parked."""
    frame = table.frame(spark, [TOPIC, MESSAGE_ID] if ids else [])
    if frame is None:
        if outcome.read > outcome.parked:
            outcome.problems.append("the table does not exist")
        return
    if ids:
        counted = frame.select(F.count("*"), F.countDistinct(TOPIC, MESSAGE_ID)).first()
        assert counted is not None
        outcome.details["rows in the table"] = counted[0]
        if counted[0] != counted[1]:
            outcome.problems.append(f"{counted[0] - counted[1]} messages are in the table twice")
    elif outcome.details.get("batches written before") is None and outcome.read != outcome.written + outcome.parked:
        outcome.problems.append(f"read {outcome.read}, but wrote {outcome.written} and parked {outcome.parked}")


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
