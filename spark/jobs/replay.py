"""Messages of a range to a topic again, or dead letters back to the topic that they came from.

Each copy carries where it came from (`src_topic`, `src_mid`) and the run's id (`run_id`). Producers are named by the
run and numbers follow the source's order, so on a topic with deduplication a run that is repeated under its id and with
its range adds nothing.
"""

import json
import time
import uuid
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from pulsar_proto.errors import TopicNotFound
from pulsar_proto.names import TopicName
from spark.jobs.common import JobFailed, Outcome, finish, guarded, parser, place_options, session
from spark.source.client import Client
from spark.source.message_id import BEFORE_ALL, Bound
from spark.source.options import Options, place_of
from spark.source.partition_reader import PartitionReader
from spark.source.subscription import NamedSubscription

SOURCE_TOPIC, SOURCE_ID, RUN_ID, ATTEMPTS = "src_topic", "src_mid", "run_id", "replay_attempts"
REAL_TOPIC = "REAL_TOPIC"
"""Where a dead letter came from (Java's DeadLetterProducer; facts 6)."""
DEAD_LETTER_SUBSCRIPTION = "magnetar-replay"
EXAMPLES = """\
  magnetar spark replay --service-url pulsar://127.0.0.1:6650 --topic orders --to-topic orders-again \\
      --from-time 2026-01-05T10:00:00 --to-time 2026-01-05T11:00:00 --filter "string(__key) = 'k7'" --dry-run
  magnetar spark replay … --dlq-of orders:billing --max-attempts 3 --park-topic orders-parked --rate 500
"""


def main(argv: Sequence[str]) -> int:
    return guarded("replay", run, argv)


def run(argv: Sequence[str]) -> int:
    made = parser("replay", "Sends messages of a range, or dead letters, again.", EXAMPLES)
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", metavar="T", help="the topic to read")
    what.add_argument("--dlq-of", metavar="TOPIC:SUBSCRIPTION", help="its dead letters, each back to its topic, once")
    made.add_argument("--to-topic", default="", metavar="T", help="where to; needed with --topic")
    made.add_argument("--from-id", default="", metavar="ID", help="ledger:entry of an unpartitioned topic, inclusive")
    made.add_argument("--to-id", default="", metavar="ID", help="inclusive")
    made.add_argument("--from-time", default="", metavar="TIME", help="publish time: ISO (UTC) or ms, inclusive")
    made.add_argument("--to-time", default="", metavar="TIME", help="exclusive")
    made.add_argument("--filter", default="true", metavar="SQL", help="which messages; columns of the data source")
    made.add_argument("--rate", type=int, default=0, metavar="N", help="messages a second; default no limit")
    made.add_argument("--max-attempts", type=int, default=0, metavar="N", help="park what was replayed so often before")
    made.add_argument("--park-topic", default="", metavar="T", help="where to park")
    made.add_argument("--run-id", default="", metavar="TEXT", help="to repeat a run; default a new one")
    made.add_argument("--dry-run", action="store_true", help="count and write nothing")
    arguments = made.parse_args(argv)
    if arguments.topic and not arguments.to_topic:
        made.error("--to-topic is needed with --topic")
    if bool(arguments.max_attempts) != bool(arguments.park_topic):
        made.error("--max-attempts and --park-topic go together")
    began = time.monotonic()
    outcome = Outcome("replay")
    run_id = arguments.run_id or uuid.uuid4().hex[:12]
    outcome.details["run id"] = run_id
    spark = session(arguments, "replay")
    with Place(arguments) as place:
        Replay(spark, arguments, run_id, place, outcome).run()
    return finish(outcome, began, arguments.progress)


class Place:
    """A client of the service, closed at the end."""

    def __init__(self, arguments: Namespace) -> None:
        self.options = place_options(arguments)
        place = place_of(Options(self.options))
        self.client = Client(place.service_url, place.login)

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *exception: object) -> None:
        self.client.close()

    def lasts(self, topic: str) -> dict[str, Bound]:
        """The last entry of each partition; nothing for a topic that does not exist yet."""
        found = {}
        for name in self.client.persist(lambda: self.client.partitions(topic, create=True)):
            reader = PartitionReader(self.client, name, BEFORE_ALL)
            try:
                found[name] = reader.last_and_mark_delete()[0]
            except TopicNotFound:
                continue
            finally:
                reader.close()
        return found


@dataclass(frozen=True, slots=True)
class Range:
    """What is read: options of the data source, and the end to acknowledge for dead letters."""

    topic: str
    options: dict[str, str]
    ends: dict[str, Bound]


class Replay:
    def __init__(self, spark: SparkSession, arguments: Namespace, run_id: str, place: Place, outcome: Outcome) -> None:
        self._spark = spark
        self._arguments = arguments
        self._run_id = run_id
        self._place = place
        self._outcome = outcome

    def run(self) -> None:
        arguments, outcome = self._arguments, self._outcome
        source = self._dead_letters() if arguments.dlq_of else self._range()
        frame = self._spark.read.format("pulsar").options(**self._place.options, topic=source.topic, **source.options)
        rows = self._copies(frame.option("allowDifferentTopicSchemas", "true").load()).persist()
        try:
            outcome.read = rows.count()
            wanted = rows.where(arguments.filter)
            chosen = wanted.count()
            outcome.skipped = outcome.read - chosen
            is_parked = F.lit(False)
            if arguments.max_attempts:
                attempts = F.coalesce(F.col("__messageProperties")[ATTEMPTS].cast("int"), F.lit(0))
                is_parked = attempts >= arguments.max_attempts
            parked = wanted.where(is_parked).withColumn("__topic", F.lit(arguments.park_topic))
            outcome.parked, again = parked.count(), wanted.where(~is_parked)
            if arguments.dry_run:
                outcome.details["would write"] = chosen - outcome.parked
                outcome.parked = 0
                return
            self._send(parked, outcome.parked, "parked")
            self._send(again, chosen - outcome.parked, "again")
            outcome.written = chosen - outcome.parked
        finally:
            rows.unpersist()
        if source.ends and not outcome.problems:
            self._acknowledge(source)

    def _range(self) -> Range:
        arguments = self._arguments
        topic = TopicName.parse(arguments.topic).full
        options = {}
        if arguments.from_time:
            options["startingTime"] = str(moment(arguments.from_time))
        if arguments.to_time:
            options["endingTime"] = str(moment(arguments.to_time))
        if arguments.from_id:
            options["startingOffsets"] = json.dumps({topic: arguments.from_id})
        if arguments.to_id:
            options["endingOffsets"] = json.dumps({topic: arguments.to_id})
        return Range(topic, options, {})

    def _dead_letters(self) -> Range:
        """From where an earlier run ended to the end as it is now."""
        topic, colon, subscription = self._arguments.dlq_of.rpartition(":")
        if not colon or not subscription or topic in ("persistent", ""):
            raise JobFailed(f"--dlq-of {self._arguments.dlq_of}: expected TOPIC:SUBSCRIPTION")
        dead = f"{TopicName.parse(topic).full}-{subscription}-DLQ"
        self._place.client.persist(lambda: self._place.client.partition_count(dead))
        ends = self._place.lasts(dead)
        named = NamedSubscription(self._place.client, DEAD_LETTER_SUBSCRIPTION)
        try:
            starts = {name: named.mark_delete(name) for name in ends}
        finally:
            named.close()
        after = {name: f"{mark.ledger}:{mark.entry + 1}" for name, mark in starts.items() if mark.ledger >= 0}
        upto = {name: str(end) for name, end in ends.items() if end.ledger >= 0}
        options = {"failOnDataLoss": "false"}
        if after:
            options["startingOffsets"] = json.dumps(after)
        if upto:
            options["endingOffsets"] = json.dumps(upto)
        return Range(dead, options, ends)

    def _copies(self, frame: DataFrame) -> DataFrame:
        """The messages as they will be written, in the order of their source."""
        properties = F.col("__messageProperties")
        added = {
            SOURCE_TOPIC: F.col("__topic"),
            SOURCE_ID: F.hex("__messageId"),
            RUN_ID: F.lit(self._run_id),
            ATTEMPTS: (F.coalesce(properties[ATTEMPTS].cast("int"), F.lit(0)) + 1).cast("string"),
        }
        kept = F.map_filter(properties, lambda name, _: ~name.isin(list(added)))
        pairs: list[Any] = [part for name, value in added.items() for part in (F.lit(name), value)]
        arguments = self._arguments
        target = F.lit(TopicName.parse(arguments.to_topic).full) if arguments.to_topic else properties[REAL_TOPIC]
        return frame.withColumn("_copied", F.map_concat(kept, F.create_map(*pairs))).withColumn("_target", target)

    def _send(self, rows: DataFrame, count: int, kind: str) -> None:
        """Writes, then looks for every source id among what the target topics got. Adds to the outcome's problems."""
        if not count:
            return
        if kind == "parked":
            rows = rows.withColumn("_target", F.col("__topic"))
        homeless = rows.where(F.col("_target").isNull()).count()
        if homeless:
            raise JobFailed(f"{homeless} messages have no property {REAL_TOPIC}: say --to-topic")
        targets = [row[0] for row in rows.select("_target").distinct().collect()]
        before = {name: bound for topic in targets for name, bound in self._place.lasts(topic).items()}
        properties, target = F.col("_copied").alias("__messageProperties"), F.col("_target").alias("__topic")
        out = rows.select("value", "__key", "__eventTime", properties, target)
        options = {"producerName": f"replay-{self._run_id}-{kind}"}
        if self._arguments.rate:
            options["maxMessagesPerSecond"] = str(self._arguments.rate)
        writer = out.coalesce(1).write.format("pulsar").options(**self._place.options, **options)
        writer.mode("append").save()
        self._check(rows, targets, before, kind)

    def _check(self, rows: DataFrame, targets: list[str], before: dict[str, Bound], kind: str) -> None:
        """Duplicates that the broker left out stand before `before`: look from the begin when ids are missing."""
        wanted = {row[0] for row in rows.select(F.hex("__messageId")).collect()}
        for whole in (False, True):
            found = set()
            for topic in targets:
                frame = self._spark.read.format("pulsar").options(**self._place.options, topic=topic)
                if not whole:
                    starts = {
                        name: f"{bound.ledger}:{bound.entry + 1}"
                        for name, bound in before.items()
                        if bound.ledger >= 0 and TopicName.parse(name).base == TopicName.parse(topic).base
                    }
                    if starts:
                        frame = frame.option("startingOffsets", json.dumps(starts))
                frame = frame.option("allowDifferentTopicSchemas", "true").option("failOnDataLoss", "false")
                ours = frame.load().where(F.col("__messageProperties")[RUN_ID] == self._run_id)
                found |= {row[0] for row in ours.select(F.col("__messageProperties")[SOURCE_ID]).collect()}
            if wanted <= found:
                return
        self._outcome.problems.append(f"{len(wanted - found)} of {len(wanted)} messages ({kind}) did not arrive")

    def _acknowledge(self, source: Range) -> None:
        named = NamedSubscription(self._place.client, DEAD_LETTER_SUBSCRIPTION)
        try:
            for name, end in source.ends.items():
                named.acknowledge(name, end)
        finally:
            named.close()


def moment(text: str) -> int:
    """Milliseconds since the epoch. Raises JobFailed."""
    if text.isdecimal():
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise JobFailed(f"'{text}' is neither milliseconds nor an ISO time") from None
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
