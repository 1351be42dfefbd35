"""Aggregates the messages of topics in windows and sessions by event time. Late messages are written to a table or
topic of their own, so that no message is lost.

The state is a small table for each batch in the checkpoint. Spark's state store is not used, because Spark drops late
rows without a trace, while this job promises that on-time, late and parked rows add up to the rows that were read.
Parked rows are those that fit no window; they are written to a table of their own. `window_rules` has the rules.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.jobs.job_arguments import add_source, add_storage, add_stream, parser
from magnetar.spark.jobs.job_outcome import JobOutcome, finish
from magnetar.spark.jobs.job_query import ends_now, run_query, stream
from magnetar.spark.jobs.job_session import guarded, session
from magnetar.spark.jobs.window import window_rules
from magnetar.spark.jobs.window.window_outputs import WindowOutputs, need_windows
from magnetar.spark.jobs.window.window_rows import CORRUPT, EVENT_TIME, MESSAGE_KEY, REASON, RowRules
from magnetar.spark.jobs.window.window_rules import CLOSED, COUNT, END, FRESH, TIME, WindowShape
from magnetar.spark.jobs.window.window_state import WindowMeta, WindowStates
from magnetar.spark.source.checkpoint import Checkpoint
from pulsar_proto.counted import counted

EXAMPLES = """\
  magnetar spark window_agg --service-url pulsar://127.0.0.1:6650 --topic readings --window '1 minute' \\
      --agg 'count(*) as n, avg(level)' --watermark '30 seconds' --out-path ./windows --checkpoint ./ck
  magnetar spark window_agg … --session-gap '30 minutes' --key user --out-topic sessions --late-topic too-late
"""


def main(argv: Sequence[str]) -> int:
    return guarded("window_agg", run, argv)


def run(argv: Sequence[str]) -> int:
    arguments, shape = _parsed(argv)
    began = time.monotonic()
    outcome = JobOutcome("window_agg")
    spark = session(
        arguments,
        "window_agg",
        only_reads=True,
        check_columns=lambda values: window_rules.check_measured(values, shape, has_json=bool(arguments.json_schema)),
        check_table=lambda: need_windows(arguments),
    )
    ends = ends_now(arguments)
    more = {"columnNameOfCorruptRecord": CORRUPT} if arguments.source == "python" else {}
    if arguments.late_topic:
        more["rawColumns"] = "true"
    frame = stream(spark, arguments, **more)
    job = WindowJob(spark, RowRules(frame, arguments, shape), shape, arguments, outcome)
    run_query(frame, job.batch, arguments, ends, outcome)
    job.check()
    return finish(outcome, began, arguments.progress)


def _parsed(argv: Sequence[str]) -> tuple[Namespace, WindowShape]:
    made = parser("window_agg", "Aggregates topics by windows of event time.", EXAMPLES)
    add_source(made)
    add_stream(made)
    add_storage(made)
    _add_rules(made)
    _add_outputs(made)
    arguments = made.parse_args(argv)
    if bool(arguments.window) == bool(arguments.session_gap):
        made.error("exactly one of --window and --session-gap is needed")
    if arguments.slide and not arguments.window:
        made.error("--slide goes with --window")
    if not (arguments.out_path or arguments.out_topic):
        made.error("one of --out-path and --out-topic is needed")
    if arguments.output_mode == "update" and not arguments.out_topic:
        made.error("--output-mode update goes with --out-topic: a table gets closed windows only")
    if arguments.late_topic and arguments.source != "python":
        made.error("--late-topic needs --source python: the connector does not give a value as it came")
    if arguments.output_mode == "update" and arguments.session_gap and arguments.source != "python":
        made.error("--output-mode update of sessions needs --source python, which writes tombstones where they merge")
    window, slide, gap = (
        window_rules.milliseconds(text) if text else 0
        for text in (arguments.window, arguments.slide or arguments.window, arguments.session_gap)
    )
    for text in filter(None, (arguments.watermark, arguments.max_future)):
        window_rules.milliseconds(text)  # raises now what would be raised after Java has started
    if not 0 < slide <= window and not gap:
        made.error("--window and --slide: expected 0 < slide <= window")
    return arguments, WindowShape(window, slide, gap, window_rules.parse_aggregates(arguments.agg))


def _add_rules(made: ArgumentParser) -> None:
    made.add_argument(
        "--json-schema", default="", metavar="DDL", help="columns of JSON in the value: 'level double, …'"
    )
    made.add_argument(
        "--event-time", default=EVENT_TIME, metavar="SQL", help="default: the message's, else when it was published"
    )
    made.add_argument(
        "--key",
        default=MESSAGE_KEY,
        metavar="SQL",
        help="what to group by; default: the message's key, as text or base64",
    )
    made.add_argument("--window", default="", metavar="TIME", help="length of a window: '1 minute'")
    made.add_argument("--slide", default="", metavar="TIME", help="a window begins so often; default: its length")
    made.add_argument("--session-gap", default="", metavar="TIME", help="sessions that end after so much silence")
    made.add_argument("--watermark", default="0 seconds", metavar="TIME", help="how late a message may come")
    made.add_argument(
        "--max-future",
        default="",
        metavar="TIME",
        help="park messages whose event time is so far ahead of their publish time; default: none",
    )
    made.add_argument("--agg", default="count(*)", metavar="A,A", help="count(*), count(c), sum, avg, min, max of c")


def _add_outputs(made: ArgumentParser) -> None:
    made.add_argument("--out-path", default="", metavar="DIR", help="closed windows as a table")
    made.add_argument("--format", choices=["parquet", "delta", "iceberg"], default="parquet", help="of --out-path")
    made.add_argument("--table", default="pulsar.windows", metavar="NS.NAME", help="iceberg: the table's name")
    made.add_argument("--out-topic", default="", metavar="T", help="windows as JSON, keyed: KEY|START")
    made.add_argument(
        "--output-mode",
        choices=["append", "update"],
        default="append",
        help="update: --out-topic gets open windows too, whenever they change",
    )
    made.add_argument(
        "--late-path", default="", metavar="DIR", help="late messages as Parquet; default CHECKPOINT/late"
    )
    made.add_argument("--late-topic", default="", metavar="T", help="late messages as they came, besides")
    made.add_argument(
        "--parked", default="", metavar="DIR", help="messages that fit no window; default CHECKPOINT/parked"
    )


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """Counts of one batch's rows. `placed` counts on-time rows once for each of their windows; `newest_ms` is the
    latest event time of on-time rows, or None when there are no on-time rows."""

    total: int
    parked: int
    late: int
    newest_ms: int | None
    placed: int

    @property
    def on_time(self) -> int:
        return self.total - self.parked - self.late


class WindowJob:
    """Adds micro-batches to windows, and checks at the end that no row was lost."""

    def __init__(
        self, spark: SparkSession, rules: RowRules, shape: WindowShape, arguments: Namespace, outcome: JobOutcome
    ) -> None:
        self._spark = spark
        self._rules = rules
        self._shape = shape
        self._outcome = outcome
        self._delay_ms = window_rules.milliseconds(arguments.watermark)
        self._checkpoint = Checkpoint(arguments.checkpoint)
        self._states = WindowStates(self._checkpoint.folder, f"{shape.rules} --key {arguments.key}")
        self._outputs = WindowOutputs(spark, self._checkpoint, shape, arguments)
        self._states.meta(self._checkpoint.committed_batch())  # raises JobFailed now when other rules made the state

    def batch(self, frame: DataFrame, number: int) -> None:
        """Spark calls this with each micro-batch. Every output is written under the batch's number, so that a repeated
        batch writes the same again."""
        before = self._states.meta(number - 1)
        rows = self._rules.rows(frame).persist()
        try:
            fits = F.col(REASON).isNull()
            is_late = F.lit(False)
            if before.watermark_ms is not None:
                is_late = F.col(TIME) < window_rules.moment(before.watermark_ms)
            late, on_time = rows.where(fits & is_late), rows.where(fits & ~is_late)
            facts = self._facts(rows, fits, is_late)
            if facts.parked:
                parked = rows.where(~fits)
                self._outcome.details.setdefault("first parked", self._outputs.park(parked, number))
            if facts.late:
                self._outputs.late(late, number)
            self._advance(number, before, on_time, facts)
        finally:
            rows.unpersist()

    def _facts(self, rows: DataFrame, fits: Column, is_late: Column) -> BatchFacts:
        on_time = fits & ~is_late
        found = rows.select(
            F.count("*"),
            F.count(F.when(~fits, 1)),
            F.count(F.when(fits & is_late, 1)),
            F.max(F.when(on_time, F.unix_millis(TIME))),
            F.coalesce(F.sum(F.when(on_time, window_rules.windows_of_a_row(self._shape))), F.lit(0)),
        ).first()
        assert found is not None
        return BatchFacts(*found)

    def _advance(self, number: int, before: WindowMeta, on_time: DataFrame, facts: BatchFacts) -> None:
        """Adds the batch's on-time rows to the state, and writes the windows that the batch closes."""
        shape, watermark = self._shape, before.watermark_ms
        if facts.newest_ms is not None:
            newest = facts.newest_ms - self._delay_ms
            watermark = newest if watermark is None else max(watermark, newest)
        state = self._states.open_windows(self._spark, number - 1)
        known = window_rules.single(on_time, shape)
        if state is not None:
            known = known.unionByName(state.withColumn(FRESH, F.lit(0).cast("bigint")))
        is_closed = F.lit(False) if watermark is None else F.col(END) <= window_rules.moment(watermark)
        now = window_rules.merged(known, shape).withColumn(CLOSED, is_closed).persist()
        try:
            closed = now.where(CLOSED)
            summed = closed.agg(F.coalesce(F.sum(COUNT), F.lit(0)), F.count("*")).first()
            assert summed is not None
            self._outputs.windows(now, state, number, any_closed=summed[1] > 0)
            meta = WindowMeta(
                before.rules,
                watermark,
                before.on_time + facts.on_time,
                before.late + facts.late,
                before.parked + facts.parked,
                before.placed + facts.placed,
                before.closed + summed[0],
                before.closed_windows + summed[1],
            )
            self._states.save(number, now.where(~F.col(CLOSED)).drop(CLOSED, FRESH), meta)
        finally:
            now.unpersist()
        self._outcome.written += summed[1]
        self._outcome.parked += facts.parked

    def check(self) -> None:
        """Checks that on-time rows are in all of their windows, closed or open, and that no closed window is in the
        table twice. Faults become problems of the outcome."""
        last = self._checkpoint.committed_batch()
        meta, outcome = self._states.meta(last), self._outcome
        state = self._states.open_windows(self._spark, last)
        summed = None if state is None else state.agg(F.coalesce(F.sum(COUNT), F.lit(0)), F.count("*")).first()
        in_open, open_windows = (0, 0) if summed is None else (summed[0], summed[1])
        outcome.details |= {
            "on time, all runs": meta.on_time,
            "late, all runs": meta.late,
            "parked, all runs": meta.parked,
            "closed windows, all runs": meta.closed_windows,
            "open windows": open_windows,
            "watermark": window_rules.shown(meta.watermark_ms),
        }
        if meta.closed + in_open != meta.placed:
            outcome.problems.append(
                f"on-time rows belong {counted(meta.placed, 'time')} to windows, but are in them "
                f"{counted(meta.closed + in_open, 'time')}"
            )
        twice = self._outputs.windows_that_are_there_twice()
        if twice:
            outcome.problems.append(f"{counted(twice, 'window is', 'windows are')} in the table twice")


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
