"""Sends messages of a range to a topic again, or dead letters back to the topic that they came from.

The properties of each copy say where it came from (`src_topic`, `src_mid`), and in which run it was made (`run_id`). On
a topic with deduplication a run that is repeated under its id adds only the missing copies. The run's id follows from
the options, so after a kill the same command continues the run.
"""

import argparse
import hashlib
import json
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.types import LongType

from magnetar.spark.jobs.error_sentences import naming_option
from magnetar.spark.jobs.job_arguments import add_number, parser, service_options
from magnetar.spark.jobs.job_outcome import INTERRUPTED, JobFailed, JobOutcome, finish
from magnetar.spark.jobs.job_session import guarded, session
from magnetar.spark.jobs.precheck import check_service
from magnetar.spark.jobs.progress import CtrlC, Teller
from magnetar.spark.jobs.replay.replay_check import RUN_ID, SOURCE_ID, SOURCE_TOPIC, compare, without_repeats
from magnetar.spark.jobs.replay.replay_copies import RESULT, CopyWriter
from magnetar.spark.jobs.replay.replay_range import Extent, ReplayRanges
from magnetar.spark.source.columns.metadata_columns import EVENT_TIME, KEY, NOT_VALUES, ORDERING_KEY, PROPERTIES
from magnetar.spark.source.ranges.bounds import Range
from pulsar_proto.counted import counted
from pulsar_proto.names import TopicName

ATTEMPTS = "replay_attempts"
REAL_TOPIC = "REAL_TOPIC"
"""The property of a dead letter that names the topic it came from (Java's RetryMessageUtil)."""
OF_DEAD_LETTERS = (REAL_TOPIC, "REAL_SUBSCRIPTION", "RECONSUMETIMES", "DELAY_TIME")
"""Properties of a dead letter that its copy does not get: a consumer that sees the old count of attempts would give up
on the copy at once."""
CORRUPT = "__corrupt"
SETTABLE = (KEY, EVENT_TIME, PROPERTIES, ORDERING_KEY)
MARGIN_MS = 3_600_000
"""The clocks of executors, producers and this machine are expected to differ by less than this."""
EXAMPLES = """\
  magnetar spark replay --service-url pulsar://127.0.0.1:6650 --topic orders --to-topic orders-again \\
      --from 2026-01-05T10:00:00 --to 2026-01-05T11:00:00 --filter "string(__key) = 'k7'" --dry-run
  magnetar spark replay … --topic orders --to-topic orders-again --from 3:0 --transform "amount=amount / 100"
  magnetar spark replay … --dlq-of orders:billing --max-attempts 3 --park-topic orders-parked --rate 500
"""


def main(argv: Sequence[str]) -> int:
    return guarded("replay", run, argv)


def options() -> argparse.ArgumentParser:
    made = parser("replay", "Sends messages of a range, or dead letters, again.", EXAMPLES)
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", metavar="T", help="the topic to read")
    what.add_argument("--dlq-of", metavar="TOPIC:SUBSCRIPTION", help="its dead letters, each back to its topic, once")
    made.add_argument("--to-topic", default="", metavar="T", help="where to; needed with --topic")
    made.add_argument(
        "--from",
        dest="from_",
        default="",
        metavar="WHERE",
        help="publish time (ISO in UTC, or ms), id as clients print it, or JSON of partition to id; default the begin",
    )
    made.add_argument("--to", default="", metavar="WHERE", help="a time is exclusive, an id inclusive; default now")
    made.add_argument("--filter", default="", metavar="SQL", help="which messages; the data source's columns, __value")
    made.add_argument(
        "--transform", action="append", default=[], metavar="COLUMN=SQL", help="what a copy has instead; several times"
    )
    add_number(made, "--rate", int, metavar="N", help="messages a second at most; default no limit")
    add_number(made, "--max-attempts", int, metavar="N", help="park what was replayed so often before")
    made.add_argument("--park-topic", default="", metavar="T", help="where to put what cannot or should not be sent")
    made.add_argument("--run-id", default="", metavar="TEXT", help="default: follows from the options above")
    made.add_argument(
        "--fail-on-data-loss",
        choices=["true", "false"],
        default="true",
        help="a range that begins before what the topic holds ends the job; default true",
    )
    made.add_argument("--dry-run", action="store_true", help="do all but writing, and say what would be written")
    return made


def parsed(argv: Sequence[str]) -> Namespace:
    made = options()
    arguments = made.parse_args(argv)
    if arguments.topic and not arguments.to_topic:
        made.error("--to-topic is needed with --topic")
    if arguments.dlq_of and (arguments.from_ or arguments.to):
        made.error("--from and --to are for --topic: dead letters are taken from where the last run ended")
    if arguments.max_attempts and not arguments.park_topic:
        made.error("--max-attempts needs --park-topic")
    for name in ("to_topic", "park_topic"):
        if getattr(arguments, name):
            topic = TopicName.parse(getattr(arguments, name))
            if topic.domain != "persistent":
                made.error(f"{topic.full} keeps no messages: copies could not be looked for")
            setattr(arguments, name, topic.full)
    arguments.transform = dict(map(_assignment, arguments.transform))
    return arguments


def _assignment(text: str) -> tuple[str, str]:
    name, equals, expression = (part.strip() for part in text.partition("="))
    if not equals or not expression:
        raise JobFailed(f"--transform {text}: expected COLUMN=SQL")
    return name, expression


def run_id_of(arguments: Namespace) -> str:
    """Returns a hash of the options that decide which copies are made. The park topic, which takes messages that cannot
    be copied, is not among these options: a run that failed without a park topic can be continued with one."""
    names = ("topic", "dlq_of", "to_topic", "from_", "to", "filter", "transform")
    text = json.dumps([getattr(arguments, name) for name in names])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run(argv: Sequence[str]) -> int:
    arguments = parsed(argv)
    began = time.monotonic()
    outcome = JobOutcome("replay")
    run_id = arguments.run_id or run_id_of(arguments)
    outcome.details["run id"] = run_id
    check_service(service_options(arguments), tell=arguments.progress == "text")
    ranges = ReplayRanges(service_options(arguments), arguments)
    try:
        extent = ranges.extent()
        busy = {name: each for name, each in extent.ranges.items() if not each.is_empty}
        outcome.details["range"] = {name: _said(each) for name, each in busy.items()}
        if busy:  # without messages Spark need not be started
            said = (
                f"run {run_id}; the same command, or --run-id {run_id}, goes on with it where the target deduplicates"
            )
            Teller(arguments.progress, outcome.job).state("run", said, run_id=run_id)
            spark = session(arguments, "replay")
            with CtrlC(spark.sparkContext.cancelAllJobs):
                Replay(spark, arguments, run_id, outcome).run(ranges, extent)
    except KeyboardInterrupt:
        outcome.problems.append(INTERRUPTED)
    finally:
        ranges.close()
    return finish(outcome, began, arguments.progress)


@dataclass
class ReplayTotals:
    """Sums over all pieces of a replay: how many messages were chosen, and how many of these an earlier attempt had
    copied. `first_ms` is the publish time of the oldest message."""

    chosen: int = 0
    already: int = 0
    first_ms: int | None = None
    targets: frozenset[str] = frozenset()


class Replay:
    """One run of `replay`, which copies a range in pieces, each by a Spark job, and checks the copies."""

    def __init__(self, spark: SparkSession, arguments: Namespace, run_id: str, outcome: JobOutcome) -> None:
        self._spark = spark
        self._arguments = arguments
        self._run_id = run_id
        self._outcome = outcome
        self._service = service_options(arguments)
        self._is_typed = bool(arguments.filter or arguments.transform)
        self._to_itself = bool(arguments.topic) and _base(arguments.topic) == _base(arguments.to_topic)
        self._began_ms = int(time.time() * 1000)

    def run(self, ranges: ReplayRanges, extent: Extent) -> None:
        """Copies the extent, checks the copies, and acknowledges dead letters. Results and problems go to the
        outcome."""
        arguments, outcome = self._arguments, self._outcome
        totals = self._copy(ranges, extent)
        if arguments.dry_run:
            outcome.details |= {"would write": outcome.written, "would park": outcome.parked}
            outcome.written = outcome.parked = 0
            return
        if totals.already:
            outcome.details["written by an earlier attempt"] = totals.already
        if totals.chosen:
            self._check(extent, totals)
        if arguments.dlq_of and not outcome.problems:
            self._acknowledge(ranges, extent)

    def _acknowledge(self, ranges: ReplayRanges, extent: Extent) -> None:
        """Acknowledges the dead letters, unless the filter has passed over some of them, because those would be
        lost."""
        if self._outcome.skipped:
            self._outcome.details["not dealt with"] = f"{self._outcome.skipped} passed over by --filter: all are kept"
        else:
            ranges.acknowledge(extent)

    def _copy(self, ranges: ReplayRanges, extent: Extent) -> ReplayTotals:
        """Copies piece after piece, and adds to the outcome's numbers after each piece."""
        totals, done, number = ReplayTotals(), {name: each.after for name, each in extent.ranges.items()}, 0
        teller = Teller(self._arguments.progress, self._outcome.job)
        while not (piece := ranges.next_piece(extent, done)).is_empty:
            began = time.monotonic()
            rows = self._copy_piece(piece, totals)
            teller.batch(number, rows, time.monotonic() - began, self._outcome.read)
            done |= {name: each.upto for name, each in piece.ranges.items()}
            number += 1
        return totals

    def _copy_piece(self, piece: Extent, totals: ReplayTotals) -> int:
        """Copies one piece, and returns how many messages it read."""
        arguments, outcome = self._arguments, self._outcome
        seen = Observation()
        frame = self._within(piece)
        if arguments.rate:  # a single task keeps to the rate; `observe` has to come after this to see all of its rows
            frame = frame.coalesce(1)
        read = frame.observe(seen, F.count(F.lit(1)).alias("rows"), _first_publish_ms().alias("first"))
        copies = self._copies(self._chosen(read))
        writer = CopyWriter(
            self._service, self._run_id, arguments.park_topic, arguments.rate, "fields" in copies.columns,
            arguments.dry_run,
        )  # fmt: skip
        for target, parked, messages, already in copies.mapInArrow(writer.__call__, RESULT).collect():
            totals.chosen += messages
            totals.already += already
            totals.targets |= {target}
            if parked:
                outcome.parked += messages - already
            else:
                outcome.written += messages - already
        rows, first = seen.get["rows"], seen.get["first"]
        outcome.read += rows
        outcome.skipped = outcome.read - totals.chosen
        if first is not None:
            totals.first_ms = first if totals.first_ms is None else min(first, totals.first_ms)
        return int(rows)

    def _load(self, **more: str) -> DataFrame:
        """Loads a frame of messages. The admin URL is left out, because with that URL the data source would split a
        partition over tasks, while copies have to be written in the order of their partition."""
        service = {name: value for name, value in self._service.items() if name != "admin.url"}
        return self._spark.read.format("pulsar").options(**service, **more).load()

    def _within(self, extent: Extent) -> DataFrame:
        """Returns the messages that an extent holds: those in its ranges and between its times."""
        how = {"columnNameOfCorruptRecord": CORRUPT} if self._is_typed else {"allowDifferentTopicSchemas": "true"}
        loss = {"failOnDataLoss": "false" if self._arguments.dlq_of else self._arguments.fail_on_data_loss}
        frame = self._load(rawColumns="true", **how, **loss, **extent.read_options())
        if self._to_itself:  # copies of an earlier attempt are in the range when the range has no end
            frame = frame.where(F.coalesce(F.col(PROPERTIES)[RUN_ID] != self._run_id, F.lit(True)))
        published = F.unix_millis("__publishTime")
        if extent.since is not None:
            frame = frame.where(published >= extent.since)
        return frame if extent.before is None else frame.where(published < extent.before)

    def _chosen(self, frame: DataFrame) -> DataFrame:
        """Returns the messages that the filter chooses, and the messages that the filter cannot judge because their
        value does not fit the topic's schema."""
        if not self._arguments.filter:
            return frame
        with naming_option("--filter", self._arguments.filter):
            return frame.where(F.coalesce(F.expr(self._arguments.filter), F.col(CORRUPT).isNotNull()))

    def _copies(self, frame: DataFrame) -> DataFrame:
        """Returns the copies, in the columns that `CopyWriter` takes."""
        arguments = self._arguments
        properties = F.col(PROPERTIES)
        attempts = F.coalesce(properties[ATTEMPTS].try_cast("int"), F.lit(0))
        target = F.lit(arguments.to_topic) if arguments.to_topic else properties[REAL_TOPIC]
        added = {
            SOURCE_TOPIC: F.col("__topic"),
            SOURCE_ID: F.hex("__messageId"),
            RUN_ID: F.lit(self._run_id),
            ATTEMPTS: (attempts + 1).cast("string"),
        }
        pairs: list[Any] = [part for name, value in added.items() for part in (F.lit(name), value)]
        dropped = [*added, *OF_DEAD_LETTERS]
        new = self._transforms(frame)
        given = F.coalesce(new.get(PROPERTIES, properties), F.expr("cast(map() as map<string, string>)"))
        kept = F.map_filter(given, lambda name, value: ~name.isin(dropped) & value.isNotNull())
        error = F.lit(None).cast("string")
        if arguments.max_attempts:
            error = F.when(attempts >= arguments.max_attempts, F.lit(f"replayed {arguments.max_attempts} times before"))
        columns = {
            "target": target,
            "source": F.col("__topic"),
            "id": F.col("__messageId"),
            "key": _bytes(new.get(KEY, F.col(KEY))),
            "ordering": _bytes(new.get(ORDERING_KEY, F.col(ORDERING_KEY))),
            "time": _millis(frame, new.get(EVENT_TIME, F.col(EVENT_TIME))),
            "properties": F.map_concat(kept, F.create_map(*pairs)),
            "value": F.col("__value"),
            "version": F.col("__schemaVersion"),
        }
        if not NOT_VALUES.issuperset(new):
            columns["fields"] = F.struct(*[new.get(name, F.col(name)).alias(name) for name in _values(frame)])
        if self._is_typed:
            unjudged = F.expr(arguments.filter).isNull() if arguments.filter else F.lit(False)
            is_unfit = F.col(CORRUPT).isNotNull() & (unjudged | F.lit("fields" in columns))
            error = F.coalesce(error, F.when(is_unfit, F.lit("its value does not fit the topic's schema")))
        return frame.select(*[value.alias(name) for name, value in columns.items()], error.alias("error"))

    def _transforms(self, frame: DataFrame) -> dict[str, Any]:
        """Returns the expression of each column that `--transform` names. Raises JobFailed for a column that a copy
        does not have."""
        known = [*_values(frame), *SETTABLE]
        new = {}
        for name, expression in self._arguments.transform.items():
            if name not in known:
                raise JobFailed(f"--transform {name}={expression}: no column {name}; there are {', '.join(known)}")
            with naming_option("--transform", f"{name}={expression}"):
                new[name] = F.expr(expression)
                frame.select(new[name])  # raises now for columns that the messages do not have
        return new

    def _check(self, extent: Extent, totals: ReplayTotals) -> None:
        """Reads the range and the copies once more, and compares them. Differences become problems of the outcome."""
        since = self._began_ms
        if totals.already and totals.first_ms is not None:
            since = totals.first_ms  # no copy is older than its source
        service = {name: value for name, value in self._service.items() if name == "admin.url"}
        written = self._load(
            **service,
            topics=",".join(without_repeats(totals.targets)),
            startingTime=str(max(0, since - MARGIN_MS)),
            allowDifferentTopicSchemas="true",
            failOnDataLoss="false",
        )
        ours = written.where(F.col(PROPERTIES)[RUN_ID] == self._run_id)
        asked = self._chosen(self._within(extent)).select(
            F.col("__topic").alias("topic"), F.hex("__messageId").alias("id")
        )
        found = compare(asked, ours, extent.ranges, ignore_before=bool(self._arguments.dlq_of))
        problems = self._outcome.problems
        if found.asked != totals.chosen:
            problems.append(
                f"the range held {counted(totals.chosen, 'message')} when it was copied, {found.asked} afterwards"
            )
        if found.missing:
            missing = f"{found.missing} of {counted(found.asked, 'message is', 'messages are')}"
            problems.append(f"{missing} not in the target, or not kept there")
        if found.repeated:
            repeated = counted(found.repeated, "message is", "messages are")
            problems.append(f"{repeated} in the target more than once: is deduplication on there?")
        if found.outside:
            copies = counted(found.outside, "copy of this run is", "copies of this run are")
            problems.append(f"{copies} of other messages: was its id used for another?")


def _said(extent: Range) -> str:
    begin = "from the begin" if extent.after.is_before_all else f"after {extent.after}"
    return f"{begin} to {extent.upto}"


def _base(topic: str) -> str:
    return TopicName.parse(topic).base.full


def _first_publish_ms() -> Any:
    return F.min(F.unix_millis("__publishTime"))


def _values(frame: DataFrame) -> list[str]:
    """Returns the names of the columns of the topic's schema."""
    return [name for name in frame.columns if name not in NOT_VALUES and name != CORRUPT]


def _bytes(column: Any) -> Any:
    return column.cast("binary")


def _millis(frame: DataFrame, column: Any) -> Any:
    """Returns event times, which are timestamps or numbers of milliseconds, as milliseconds."""
    kind = frame.select(column).schema.fields[0].dataType
    return column if isinstance(kind, LongType) else F.unix_millis(column)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
