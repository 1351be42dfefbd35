"""Windows and sessions by event time over topics; late messages go to a table of their own, none is lost.

The state is a small table a batch in the checkpoint, not Spark's state store: Spark drops late rows unseen, and this
job promises that on-time and late rows add up to what was read. See `windows` for the rules.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from spark.jobs import windows
from spark.jobs.common import (
    JobFailed,
    Outcome,
    add_source,
    add_stream,
    ends_now,
    finish,
    guarded,
    parser,
    place_options,
    run_query,
    session,
    stream,
)
from spark.jobs.windows import COUNT, END, KEY, START, TIME, Shape
from spark.source.checkpoint import Checkpoint

STATES_KEPT = 3
BEFORE_ALL_MS = -(2**62)
EXAMPLES = """\
  magnetar spark window_agg --service-url pulsar://127.0.0.1:6650 --topic readings --window '1 minute' \\
      --agg 'count(*) as n, avg(level)' --watermark '30 seconds' --out-path ./windows --checkpoint ./ck
  magnetar spark window_agg … --session-gap '30 minutes' --key user --out-topic sessions --late-path ./late
"""


def main(argv: Sequence[str]) -> int:
    return guarded("window_agg", run, argv)


def run(argv: Sequence[str]) -> int:
    made = parser("window_agg", "Aggregates topics by windows of event time.", EXAMPLES)
    add_source(made)
    add_stream(made)
    made.add_argument(
        "--json-schema", default="", metavar="DDL", help="columns of JSON in the value: 'level double, …'"
    )
    made.add_argument("--event-time", default="coalesce(__eventTime, __publishTime)", metavar="SQL")
    made.add_argument(
        "--key", default="string(__key)", metavar="SQL", help="what to group by; default the message's key"
    )
    made.add_argument("--window", default="", metavar="TIME", help="length of a window: '1 minute'")
    made.add_argument("--slide", default="", metavar="TIME", help="a window begins so often; default: its length")
    made.add_argument("--session-gap", default="", metavar="TIME", help="sessions that end after so much silence")
    made.add_argument("--watermark", default="0 seconds", metavar="TIME", help="how late a message may come")
    made.add_argument("--agg", default="count(*)", metavar="A,A", help="count(*), sum(c), avg(c), min(c), max(c)")
    made.add_argument("--out-path", default="", metavar="DIR", help="closed windows as Parquet")
    made.add_argument("--out-topic", default="", metavar="T", help="closed windows as JSON, keyed: KEY|START")
    made.add_argument(
        "--late-path", default="", metavar="DIR", help="late messages as Parquet; default CHECKPOINT/late"
    )
    arguments = made.parse_args(argv)
    if bool(arguments.window) == bool(arguments.session_gap):
        made.error("exactly one of --window and --session-gap is needed")
    if not (arguments.out_path or arguments.out_topic):
        made.error("one of --out-path and --out-topic is needed")
    began = time.monotonic()
    outcome = Outcome("window_agg")
    spark = session(arguments, "window_agg")
    ends = ends_now(arguments)
    gap = windows.milliseconds(arguments.session_gap) if arguments.session_gap else 0
    shape = Shape(arguments.window, arguments.slide, gap, windows.parse_aggregates(arguments.agg))
    job = WindowJob(spark, arguments, shape, outcome)
    run_query(stream(spark, arguments), job.batch, arguments, ends, outcome)
    job.check()
    return finish(outcome, began, arguments.progress)


@dataclass(frozen=True, slots=True)
class Meta:
    """Beside a batch's open windows. Counts are of all batches up to this one."""

    watermark_ms: int = BEFORE_ALL_MS
    on_time: int = 0
    late: int = 0
    closed: int = 0
    """Rows in closed windows: the same row several times where windows slide."""


class WindowJob:
    def __init__(self, spark: SparkSession, arguments: Any, shape: Shape, outcome: Outcome) -> None:
        self._spark = spark
        self._arguments = arguments
        self._shape = shape
        self._outcome = outcome
        self._delay_ms = windows.milliseconds(arguments.watermark)
        self._states = Path(arguments.checkpoint) / "magnetar-windows"
        self._late = arguments.late_path or f"{arguments.checkpoint}/late"

    def batch(self, frame: DataFrame, number: int) -> None:
        """Every output is written under the batch's number: a repeated batch overwrites it."""
        before = self._meta(number - 1)
        rows = self._rows(frame).persist()
        try:
            is_late = F.col(TIME) < F.timestamp_millis(F.lit(max(before.watermark_ms, 0)))
            late = rows.where(is_late)
            on_time = rows.where(~is_late)
            facts = rows.select(
                F.count("*"), F.sum(is_late.cast("bigint")), F.max(F.unix_millis(TIME)), F.count(TIME)
            ).first()
            assert facts is not None
            total, late_rows, newest, timed = facts[0], facts[1] or 0, facts[2], facts[3]
            if timed < total:
                raise JobFailed(f"{total - timed} messages of batch {number} have no event time")
            if late_rows:
                late.drop(TIME, KEY).write.mode("overwrite").parquet(f"{self._late}/batch={number:08d}")
            self._advance(number, before, on_time, total - late_rows, late_rows, newest)
        finally:
            rows.unpersist()

    def _advance(
        self, number: int, before: Meta, on_time: DataFrame, count: int, late: int, newest: int | None
    ) -> None:
        shape = self._shape
        new = windows.single(on_time, shape)
        state = self._state(number - 1)
        open_before = windows.merged(new if state is None else new.unionByName(state), shape).persist()
        try:
            watermark = before.watermark_ms if newest is None else max(before.watermark_ms, newest - self._delay_ms)
            is_closed = F.col(END) <= F.timestamp_millis(F.lit(max(watermark, 0)))
            closed = open_before.where(is_closed)
            summed = closed.agg(F.sum(COUNT), F.count("*")).first()
            assert summed is not None
            if summed[1]:
                self._emit(windows.results(closed, shape), number)
            self._outcome.written += summed[1]
            meta = Meta(watermark, before.on_time + count, before.late + late, before.closed + (summed[0] or 0))
            self._save(number, open_before.where(~is_closed), meta)
        finally:
            open_before.unpersist()
        self._outcome.parked += late

    def _rows(self, frame: DataFrame) -> DataFrame:
        if self._arguments.json_schema:
            record = F.from_json(F.col("value").cast("string"), self._arguments.json_schema).alias("_record")
            frame = frame.select("*", record).select("_record.*", *frame.columns)
        key, event_time = F.expr(self._arguments.key).cast("string"), F.expr(self._arguments.event_time)
        return frame.withColumn(KEY, key).withColumn(TIME, event_time.cast("timestamp"))

    def _emit(self, closed: DataFrame, number: int) -> None:
        arguments = self._arguments
        if arguments.out_path:
            closed.write.mode("overwrite").parquet(f"{arguments.out_path}/batch={number:08d}")
        if arguments.out_topic:
            start = F.date_format(START, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
            message = closed.select(
                F.to_json(F.struct("*")).alias("value"), F.concat_ws("|", KEY, start).alias("__key")
            )
            message.write.format("pulsar").options(**place_options(arguments), topic=arguments.out_topic).mode(
                "append"
            ).save()

    def _folder(self, number: int) -> Path:
        return self._states / f"{number:08d}"

    def _meta(self, number: int) -> Meta:
        if number < 0:
            return Meta()
        path = self._folder(number) / "meta.json"
        if not path.exists():
            raise JobFailed(f"{path} is gone: the state of batch {number} cannot be made anew")
        return Meta(**json.loads(path.read_text()))

    def _state(self, number: int) -> DataFrame | None:
        return None if number < 0 else self._spark.read.parquet(str(self._folder(number) / "open"))

    def _save(self, number: int, still_open: DataFrame, meta: Meta) -> None:
        folder = self._folder(number)
        still_open.coalesce(1).write.mode("overwrite").parquet(str(folder / "open"))
        building = folder / "meta.building"
        building.write_text(json.dumps({name: getattr(meta, name) for name in Meta.__dataclass_fields__}))
        building.rename(folder / "meta.json")
        shutil.rmtree(self._folder(number - STATES_KEPT), ignore_errors=True)

    def check(self) -> None:
        """On-time rows are in windows that are closed or open, and rows that were read are on time or late."""
        last = Checkpoint(self._arguments.checkpoint).committed_batch()
        meta = self._meta(last)
        outcome = self._outcome
        state = self._state(last)
        summed = None if state is None else state.agg(F.sum(COUNT), F.count("*")).first()
        in_open = 0 if summed is None else summed[0] or 0
        outcome.details = {
            "on time, all runs": meta.on_time,
            "late, all runs": meta.late,
            "open windows": 0 if summed is None else summed[1],
        }
        if not self._arguments.slide and meta.closed + in_open != meta.on_time:
            outcome.problems.append(f"{meta.on_time} rows came on time, {meta.closed + in_open} are in windows")


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
