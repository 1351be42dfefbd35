"""The outputs of a window job: closed windows to a table, windows to a keyed topic, late and bad messages to tables
beside the table of windows.

A batch that Spark repeats must not be stored twice, so each write carries the number of its batch. A table ignores a
batch whose number it has stored already. A topic with deduplication drops the messages of a repeated batch, because the
repeated batch has a producer of the same name, and makes the same messages in the same order.
"""

from argparse import Namespace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from magnetar.spark.jobs.job_arguments import service_options
from magnetar.spark.jobs.job_places import job_place
from magnetar.spark.jobs.position_column import position
from magnetar.spark.jobs.tables.table import Table, need_table, open_table
from magnetar.spark.jobs.window.window_rows import CORRUPT, MESSAGE, REASON
from magnetar.spark.jobs.window.window_rules import CLOSED, END, FRESH, IDENTITY, KEY, START, WindowShape, results
from magnetar.spark.source.checkpoint import Checkpoint
from magnetar.spark.source.columns import metadata_columns as source
from magnetar.spark.source.ranges.bounds import bound_of
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

RAW = [field.name for field in source.RAW_FIELDS]


def need_windows(arguments: Namespace) -> None:
    """Looks for the table to which the checkpoint has written closed windows. Raises JobFailed when there is none, and
    StorageFault when the place cannot be reached."""
    if arguments.out_path:
        need_table(arguments.format, job_place(arguments, arguments.out_path), arguments.table)


class WindowOutputs:
    """The tables and topics that one run writes to."""

    def __init__(self, spark: SparkSession, checkpoint: Checkpoint, shape: WindowShape, arguments: Namespace) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._shape = shape
        self._arguments = arguments
        self._table = self._open(arguments.out_path, arguments.format) if arguments.out_path else None
        self._late = self._open(arguments.late_path or str(checkpoint.folder / "late"))
        self._parked = self._open(arguments.parked or str(checkpoint.folder / "parked"))

    def _open(self, path: str, kind: str = "parquet") -> Table:
        return open_table(self._spark, kind, job_place(self._arguments, path), self._arguments.table, by="")

    def park(self, rows: DataFrame, number: int) -> str:
        """Writes rows that fit no window. Returns the id of one of these rows' messages, and the reason why it fits no
        window."""
        kept = rows.select(f"{MESSAGE}.*", REASON).drop(*RAW)
        self._parked.write(kept, self._checkpoint.query_id(), number)
        first = kept.select(source.TOPIC, source.MESSAGE_ID, REASON).first()
        assert first is not None
        return f"{first[0]} {bound_of(pb.MessageIdData.FromString(bytes(first[1])))}: {first[2]}"

    def late(self, rows: DataFrame, number: int) -> None:
        """Writes late messages to their table, and to their topic if there is one."""
        messages = rows.select(f"{MESSAGE}.*")
        self._late.write(messages.drop(CORRUPT, *RAW), self._checkpoint.query_id(), number)
        if self._arguments.late_topic:
            copies = messages.withColumn("value", F.col(source.VALUE))
            kept = ("value", source.KEY, source.EVENT_TIME, source.PROPERTIES)
            order = (source.TOPIC, position(source.MESSAGE_ID))
            self._send(copies, order, kept, self._arguments.late_topic, f"{number}-late")

    def windows(self, now: DataFrame, before: DataFrame | None, number: int, *, any_closed: bool) -> None:
        """Writes the windows that the options ask for. `now` has all windows, with the columns CLOSED and FRESH;
        `before` has the windows that were open when the batch began, and is None before the first batch."""
        closed = now.where(CLOSED)
        if self._table is not None and any_closed:
            self._table.write(results(closed, self._shape), self._checkpoint.query_id(), number)
            self._checkpoint.wrote(self._arguments.out_path)
        topic = self._arguments.out_topic
        if not topic:
            return
        if self._arguments.output_mode == "update":
            changed = now.where(F.col(CLOSED) | (F.col(FRESH) > 0))
            messages = self._messages(changed, F.col(CLOSED))
            if before is not None and self._shape.session_gap_ms:
                messages = messages.unionByName(_withdrawn(before, now), allowMissingColumns=True)
        elif any_closed:
            messages = self._messages(closed)
        else:
            return
        self._send(messages, (source.KEY,), messages.columns, topic, str(number))

    def _messages(self, some: DataFrame, *more: Column) -> DataFrame:
        """Returns windows as messages. The event time of a message is the last millisecond of its window, so that a
        second window job over these messages counts each in the right window. The event time is a number, because the
        connector writes a timestamp's microseconds as if they were milliseconds."""
        rows = results(some, self._shape, *more)
        value = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("value")
        last = (F.unix_millis(END) - 1).alias(source.EVENT_TIME)
        return rows.select(value, _message_key().alias(source.KEY), last)

    def _send(
        self, rows: DataFrame, order: tuple[str | Column, ...], kept: tuple[str, ...] | list[str], topic: str, name: str
    ) -> None:
        """Writes rows to a topic by one task with a producer of its own, in an order that is the same when the batch is
        repeated."""
        options = service_options(self._arguments)
        ordered = rows.repartition(1).sortWithinPartitions(*order).select(*kept)
        if self._arguments.source == "python":
            options |= {"topic": topic, "producerName": f"magnetar-windows-{self._checkpoint.query_id()}-{name}"}
        else:  # the connector takes the topic from the rows
            ordered = ordered.withColumn(source.TOPIC, F.lit(TopicName.parse(topic).full))
        ordered.write.format("pulsar").options(**options).mode("append").save()

    def windows_that_are_there_twice(self) -> int:
        """Returns how many windows are in the table more than once."""
        files = [] if self._table is None else self._table.files()
        if self._table is None or not files:
            return 0
        rows = self._table.rows(self._spark, files, IDENTITY)
        return rows.groupBy(*IDENTITY).count().where("count > 1").count()


def _message_key() -> Column:
    """Returns the keys of windows' messages: `KEY|START`, and START alone for rows without a key."""
    return F.concat_ws("|", KEY, F.date_format(START, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"))


def _withdrawn(before: DataFrame, now: DataFrame) -> DataFrame:
    """Returns tombstones for sessions whose key has changed because they were joined to another session, or begin
    earlier now."""
    keys = now.select(_message_key().alias(source.KEY))
    gone = before.select(_message_key().alias(source.KEY)).join(keys, source.KEY, "left_anti")
    return gone.select(F.lit(None).cast("string").alias("value"), source.KEY)
