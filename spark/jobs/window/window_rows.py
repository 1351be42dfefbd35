"""The values that a window job extracts from a message: key, event time and measured values, or the reason why the
message is set aside.

Expressions of users are evaluated without Spark's ANSI mode. So a text that is not a time gives null, and does not stop
the job for all other messages.
"""

from argparse import Namespace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.types import DateType, StringType, TimestampNTZType, TimestampType

from magnetar.spark.jobs.error_sentences import naming_option
from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.window import window_rules
from magnetar.spark.jobs.window.window_rules import KEY, TIME, WindowShape
from magnetar.spark.source.columns.metadata_columns import PUBLISH_TIME

MESSAGE = "__message"
"""The column of the whole message, with all of its columns as they came."""
REASON = "__reason"
"""The column that says why a message is in no window; null for a message that is in a window."""
CORRUPT = "__corrupt"
"""The column in which the data source, and here `from_json`, leave values that do not fit."""
EVENT_TIME = "coalesce(__eventTime, __publishTime)"
MESSAGE_KEY = (
    "if(is_valid_utf8(string(__key)), string(__key), base64(__key))"
    if hasattr(F, "is_valid_utf8")
    else "if(encode(decode(__key, 'UTF-8'), 'UTF-8') = __key, string(__key), base64(__key))"  # for pyspark 3
)
INTERNAL = (MESSAGE, CORRUPT, "__broken")
TIME_OF = "try_add(cast((\n{}\n) as timestamp), interval '0' second)"
"""Wraps an expression for a time so that its value is null when it fails. Some expressions, such as timestamp_millis of
a large number, fail even without ANSI mode."""
YEARS_MS = (-62_135_596_800_000, 253_402_300_800_000)
"""The years 1 to 9999, which Spark's timestamps are made for. Arithmetic on times beyond these years may overflow."""
TIMES = (TimestampType, TimestampNTZType, DateType, StringType)


class RowRules:
    """Turns messages into rows, according to the options of one run. Raises JobFailed, which names the option, when an
    expression does not fit the topic's columns, and ValueError when an aggregate does not fit them."""

    def __init__(self, frame: DataFrame, arguments: Namespace, shape: WindowShape) -> None:
        self._record = arguments.json_schema
        self._key, self._time = arguments.key, arguments.event_time
        self._max_future_ms = window_rules.milliseconds(arguments.max_future) if arguments.max_future else None
        self._shape = shape
        self._check(self._wide(frame))

    def _check(self, wide: DataFrame) -> None:
        for option, text in (("--key", self._key), ("--event-time", self._time)):
            with naming_option(option, text, ", ".join(wide.drop(*INTERNAL).columns)):
                kind = wide.select(F.expr(text)).schema.fields[0].dataType
            if option == "--event-time" and not isinstance(kind, TIMES):
                raise JobFailed(
                    f"--event-time '{text}' is {kind.simpleString()}: expected a timestamp, as timestamp_millis(c) or "
                    "timestamp_seconds(c) make of numbers"
                )
        window_rules.measured(wide.drop(*INTERNAL), self._shape)

    def _wide(self, frame: DataFrame) -> DataFrame:
        """Returns each message as it came (MESSAGE), its columns, and the columns of its JSON. When both have a column
        of the same name, the JSON's column is taken."""
        wide = frame.withColumn(MESSAGE, F.struct(*(f"`{name}`" for name in frame.columns)))
        if not self._record:
            return wide
        if "value" not in frame.columns:
            columns = ", ".join(frame.drop(CORRUPT).columns)
            raise JobFailed(f"--json-schema: the topic has a schema, its columns are {columns}")
        record = f"{self._record}, `{CORRUPT}` string"
        parsed = F.from_json(F.col("value").cast("string"), record, {"columnNameOfCorruptRecord": CORRUPT})
        with naming_option("--json-schema", self._record):
            known = {name.lower() for name in frame.select(parsed.alias("_")).select("_.*").columns}
        others = [F.col(f"`{name}`") for name in wide.columns if name.lower() not in known]
        wide = wide.withColumn("__record", parsed)
        broken = F.col("__record").isNull() & F.col(f"{MESSAGE}.value").isNotNull()
        return wide.select("__record.*", *others, broken.alias("__broken"))

    def rows(self, frame: DataFrame) -> DataFrame:
        """Returns a row for each message: MESSAGE, KEY, TIME, REASON and the parts that the aggregates need."""
        wide = self._wide(frame)
        wide.sparkSession.conf.set("spark.sql.ansi.enabled", "false")
        key, time = F.expr(self._key).cast("string"), F.expr(TIME_OF.format(self._time))
        reason = self._reason(wide.columns, time)
        parts = window_rules.measured(wide, self._shape)
        return wide.select(MESSAGE, key.alias(KEY), time.alias(TIME), reason.alias(REASON), *parts)

    def _reason(self, columns: list[str], time: Column) -> Column:
        reason = F.lit(None).cast("string")
        if self._max_future_ms is not None:
            ahead = F.unix_millis(time) - F.unix_millis(F.col(PUBLISH_TIME)) > self._max_future_ms
            reason = F.when(ahead, F.lit("its event time is too far ahead of its publish time (--max-future)"))
        outside = (time < window_rules.moment(YEARS_MS[0])) | (time >= window_rules.moment(YEARS_MS[1]))
        reason = F.when(outside, F.lit("its event time is not in the years 1 to 9999")).otherwise(reason)
        reason = F.when(time.isNull(), F.lit("it has no event time")).otherwise(reason)
        if CORRUPT in columns:
            broken = F.col(CORRUPT).isNotNull()
            if "__broken" in columns:
                broken = broken | F.col("__broken")
            reason = F.when(broken, F.lit("its value does not fit the schema")).otherwise(reason)
        return reason
