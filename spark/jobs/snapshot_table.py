"""The latest row of each key, from keyed topics or change streams, as a table that deletes what was deleted.

Each micro-batch makes a new version of the table beside the old one, so that a batch which is repeated after a kill
starts from the same version again, and a reader always has a whole one. Inside a partition the message id orders.
"""

import json
import shutil
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
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
    source_options,
    stream,
)
from spark.jobs.positions import position
from spark.source.columns import MESSAGE_ID, METADATA_TYPES, PUBLISH_TIME, TOPIC

KEY, DELETED, POSITION = "key", "_deleted", "_position"
LATEST_FILE = "_latest.json"
VERSIONS_KEPT = 3
EXAMPLES = """\
  magnetar spark snapshot_table --service-url pulsar://127.0.0.1:6650 --topic users --path ./users --checkpoint ./ck
  magnetar spark snapshot_table … --format debezium --json-schema 'id long, name string' --key id
read it with: spark.read.parquet(f"{path}/version={json.load(open(path + '/_latest.json'))['version']:08d}")
"""


def main(argv: Sequence[str]) -> int:
    return guarded("snapshot_table", run, argv)


def run(argv: Sequence[str]) -> int:
    made = parser("snapshot_table", "Keeps the latest row of each key as a table.", EXAMPLES)
    add_source(made)
    add_stream(made)
    made.add_argument("--path", required=True, metavar="DIR", help="the table")
    made.add_argument(
        "--format", choices=["plain", "debezium"], default="plain", help="debezium: JSON with op and after"
    )
    made.add_argument("--json-schema", default="", metavar="DDL", help="columns of a row's JSON; needed for debezium")
    made.add_argument("--key", default="", metavar="SQL", help="default: the message's key")
    made.add_argument("--check", action="store_true", help="at the end read the whole topic again and compare")
    arguments = made.parse_args(argv)
    if arguments.format == "debezium" and not arguments.json_schema:
        made.error("--format debezium needs --json-schema")
    began = time.monotonic()
    outcome = Outcome("snapshot_table")
    spark = session(arguments, "snapshot_table")
    ends = ends_now(arguments)
    table = SnapshotTable(spark, Path(arguments.path), arguments, outcome)
    run_query(stream(spark, arguments), table.batch, arguments, ends, outcome)
    if arguments.check:
        table.check()
    return finish(outcome, began, arguments.progress)


class SnapshotTable:
    def __init__(self, spark: SparkSession, path: Path, arguments: Namespace, outcome: Outcome) -> None:
        self._spark = spark
        self._path = path
        self._arguments = arguments
        self._outcome = outcome

    def batch(self, frame: DataFrame, number: int) -> None:
        rows = changes(frame, self._arguments).persist()
        try:
            keyless = rows.where(F.col(KEY).isNull()).count()
            self._outcome.skipped += keyless
            newest = latest(rows.where(F.col(KEY).isNotNull()))
            before = self.version(number - 1)
            after = newest.where(~F.col(DELETED)).drop(DELETED, POSITION)
            if before is not None:
                after = before.join(newest.select(KEY), KEY, "left_anti").unionByName(after, allowMissingColumns=True)
            folder = self._folder(number)
            after.write.mode("overwrite").parquet(str(folder))
            self._outcome.written += rows.count() - keyless
            self._outcome.details["rows in the table"] = self._spark.read.parquet(str(folder)).count()
            self._point(number)
        finally:
            rows.unpersist()

    def _folder(self, number: int) -> Path:
        return self._path / f"version={number:08d}"

    def version(self, number: int) -> DataFrame | None:
        """Raises JobFailed when it should be there and is not."""
        if number < 0:
            return None
        if not self._folder(number).is_dir():
            raise JobFailed(f"{self._folder(number)} is gone: version {number + 1} cannot be made without it")
        return self._spark.read.parquet(str(self._folder(number)))

    def _point(self, number: int) -> None:
        building = self._path / f"{LATEST_FILE}.building"
        building.write_text(json.dumps({"version": number}))
        building.rename(self._path / LATEST_FILE)
        shutil.rmtree(self._folder(number - VERSIONS_KEPT), ignore_errors=True)

    def newest(self) -> DataFrame | None:
        pointer = self._path / LATEST_FILE
        return self.version(json.loads(pointer.read_text())["version"]) if pointer.exists() else None

    def check(self) -> None:
        """Keys and the ids of their latest messages, against a read of the whole topic, which must still be there."""
        table = self.newest()
        options = source_options(self._arguments)
        for name in ("startingOffsets", "predefinedSubscription"):
            options.pop(name, None)
        frame = self._spark.read.format("pulsar").options(**options).load()
        rows = changes(frame, self._arguments).where(F.col(KEY).isNotNull())
        expected = latest(rows).where(~F.col(DELETED)).select(KEY, MESSAGE_ID).persist()
        if table is None:
            wrong = expected.count()
        else:
            held = table.select(KEY, MESSAGE_ID).persist()
            wrong = held.exceptAll(expected).count() + expected.exceptAll(held).count()
        if wrong:
            self._outcome.problems.append(f"{wrong} keys differ from what the topic says")


def changes(frame: DataFrame, arguments: Namespace) -> DataFrame:
    """A row a message: KEY, the row's columns, DELETED, POSITION, topic, id and publish time."""
    values = [name for name in frame.columns if name not in METADATA_TYPES]
    kept = [TOPIC, MESSAGE_ID, PUBLISH_TIME, "__key"]
    if arguments.format == "debezium":
        envelope = f"op string, before struct<{arguments.json_schema}>, after struct<{arguments.json_schema}>"
        text = F.col("value").cast("string")
        parsed = F.coalesce(F.get_json_object(text, "$.payload"), text)
        frame = frame.select(F.from_json(parsed, envelope).alias("_change"), *kept)
        deleted = F.coalesce(F.col("_change.op") == "d", F.lit(True))
        row = F.when(F.col("_change.op") == "d", F.col("_change.before")).otherwise(F.col("_change.after"))
        frame = frame.withColumn(DELETED, deleted).withColumn("_row", row).select("_row.*", DELETED, *kept)
    elif arguments.json_schema:
        record = F.from_json(F.col("value").cast("string"), arguments.json_schema)
        frame = frame.select(record.alias("_row"), F.col("value").isNull().alias(DELETED), *kept)
        frame = frame.select("_row.*", DELETED, *kept)
    else:
        nothing = F.lit(True)
        for name in values:
            nothing = nothing & F.col(f"`{name}`").isNull()
        frame = frame.select(*(f"`{name}`" for name in values), nothing.alias(DELETED), *kept)
    key = F.expr(arguments.key).cast("string") if arguments.key else F.col("__key").cast("string")
    return (
        frame.withColumn("_key", key)
        .withColumn(POSITION, position(MESSAGE_ID))
        .drop("__key", KEY)
        .withColumnRenamed("_key", KEY)
    )


def latest(rows: DataFrame) -> DataFrame:
    """The last change of each key. A key that moved to another partition: the younger publish time counts."""
    order = Window.partitionBy(KEY).orderBy(F.desc(PUBLISH_TIME), F.desc(POSITION))
    if rows.select(TOPIC).distinct().count() <= 1:
        order = Window.partitionBy(KEY).orderBy(F.desc(POSITION))
    return rows.withColumn("_rank", F.row_number().over(order)).where("_rank = 1").drop("_rank")


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
