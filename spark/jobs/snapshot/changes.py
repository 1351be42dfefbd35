"""Turns messages into changes of keyed rows. The messages are plain keyed messages, or Debezium's envelopes in any of
their wrappings.

A change has KEY, the row's columns, DELETED, and the columns of the message that it came from (TOPIC, MESSAGE_ID,
PUBLISH_TIME). Changes are ordered by POSITION, the place in the topic, and by LSN, the place in the log of Debezium's
database. LSN is empty unless the options ask for that order. REASON says why a message is no change; such a message is
parked, which means that it is written to a folder of its own. A message without a payload, or with an empty payload,
deletes its key, as in compaction and in TableView.
"""

from argparse import Namespace
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.types import StructType

from magnetar.spark.jobs.error_sentences import naming_option
from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.position_column import position
from magnetar.spark.source.columns.metadata_columns import KEY as MESSAGE_KEY
from magnetar.spark.source.columns.metadata_columns import MESSAGE_ID, METADATA_TYPES, NOT_VALUES, PUBLISH_TIME, TOPIC
from magnetar.spark.source.columns.metadata_columns import VALUE as RAW_VALUE

KEY, DELETED, POSITION, LSN, REASON = "key", "_deleted", "_position", "_lsn", "_reason"
CORRUPT = "__corrupt"
ORIGIN = [TOPIC, MESSAGE_ID, PUBLISH_TIME]
READ_OPTIONS = {"columnNameOfCorruptRecord": CORRUPT, "rawColumns": "true"}
"""Options of this project's data source. The published connector has neither option, so with the connector a record
whose fields are all null counts as a delete."""
ENVELOPE = {"op", "before", "after"}
"""What each of Debezium's changes has."""
UNREADABLE = "_unreadable"
PAIR = [KEY, "value"]
"""The columns of a key-value topic."""


def changes(frame: DataFrame, arguments: Namespace) -> DataFrame:
    """Returns a change for each message. Raises JobFailed when the topic does not have what the options ask for."""
    values = [name for name in frame.columns if name not in NOT_VALUES and name != CORRUPT]
    message_key = _text_of_key(frame) if values == PAIR else F.col(MESSAGE_KEY).cast("string")
    frame = frame.withColumn("_message_key", message_key).withColumn("_tombstone", _tombstone(frame, values))
    with naming_option("--json-schema", arguments.json_schema):
        wrapped = arguments.format == "debezium"
        read = _debezium(frame, values, arguments) if wrapped else _plain(frame, values, arguments)
    row = read.schema["_row"].dataType
    assert isinstance(row, StructType)
    if KEY in row.names and arguments.key != KEY:
        raise JobFailed(f"the rows have a column '{KEY}' of their own: take it as the key with --key {KEY}")
    kept = [F.col(f"`{name}`") for name in (*METADATA_TYPES, RAW_VALUE) if name in read.columns]
    read = read.select("_row.*", "_message_key", DELETED, LSN, REASON, *kept)
    with naming_option("--key", arguments.key, ", ".join(row.names)):
        key = F.expr(arguments.key).cast("string") if arguments.key else F.col("_message_key")
        read = read.withColumn("_key", key)
    read = read.withColumn(POSITION, position(MESSAGE_ID))
    return read.drop(KEY, "_message_key").withColumnRenamed("_key", KEY)


def _text_of_key(frame: DataFrame) -> Column:
    """Returns the keys of a key-value topic as text, which for records is JSON."""
    is_record = isinstance(frame.schema[KEY].dataType, StructType)
    return F.to_json(KEY) if is_record else F.col(KEY).cast("string")


def _tombstone(frame: DataFrame, values: list[str]) -> Column:
    """Returns a column that is true for messages which delete their key because they have no payload."""
    nulls = [F.col(f"`{name}`").isNull() for name in (["value"] if values == PAIR else values)]
    nothing = reduce(Column.__and__, nulls)
    if RAW_VALUE not in frame.columns:
        return nothing
    empty = F.coalesce(F.length(RAW_VALUE) == 0, F.lit(True))
    return empty | (nothing & F.col(CORRUPT).isNull()) if values == PAIR else empty


def _plain(frame: DataFrame, values: list[str], arguments: Namespace) -> DataFrame:
    """Adds the columns DELETED, LSN, REASON and `_row`, which has the topic's columns or the columns of its JSON."""
    unreadable = F.col(CORRUPT).isNotNull() if CORRUPT in frame.columns else F.lit(False)
    if arguments.json_schema:
        ddl = f"{arguments.json_schema}, {UNREADABLE} string"
        parsed = F.from_json(F.col("value").cast("string"), ddl, {"columnNameOfCorruptRecord": UNREADABLE})
        frame = frame.withColumn("_row", parsed)
        unreadable = F.col(f"_row.{UNREADABLE}").isNotNull()
        frame = frame.withColumn("_bad", unreadable).withColumn("_row", F.col("_row").dropFields(UNREADABLE))
    else:
        names = ["value"] if values == PAIR else values
        frame = frame.withColumn("_bad", unreadable)
        frame = frame.withColumn("_row", F.struct(*(F.col(f"`{name}`") for name in names)))
    poison = F.col("_bad") & ~F.col("_tombstone")
    return (
        frame.withColumn(DELETED, F.col("_tombstone"))
        .withColumn(LSN, F.lit(""))
        .withColumn(REASON, F.when(poison, F.lit("it does not fit the schema")))
    )


def _debezium(frame: DataFrame, values: list[str], arguments: Namespace) -> DataFrame:
    """Adds the columns DELETED, LSN, REASON and `_row`, which is the row after the change or, for a delete, the row
    before the change."""
    frame = frame.withColumn("_change", _envelope(frame, values, arguments))
    fields = frame.schema["_change"].dataType
    assert isinstance(fields, StructType)
    op, before, after = (F.col(f"_change.{name}") for name in ("op", "before", "after"))
    is_json = not isinstance(frame.schema["value"].dataType, StructType) if "value" in values else False
    # A tombstone's row has only the key. The row of a delete may also have only the key.
    if arguments.json_schema and is_json:
        key = F.col("_message_key")
        payload = F.coalesce(F.get_json_object(key, "$.payload"), key)
        before = F.coalesce(before, F.from_json(payload, arguments.json_schema))
    tombstone, gone = F.col("_tombstone"), F.coalesce(op == "d", F.lit(False))
    frame = frame.withColumn("_row", F.when(tombstone | gone, before).otherwise(after))
    frame = frame.withColumn(LSN, _lsn(fields) if arguments.order == "lsn" else F.lit(""))
    reason = F.when(op.isNull(), F.lit("it is no change of Debezium's"))
    reason = reason.when(~op.isin("c", "r", "u", "d"), F.concat(F.lit("an operation that is not known: "), op))
    reason = reason.when(~gone & F.col("_row").isNull(), F.lit("it has no row"))
    reason = reason.when(F.col(LSN).isNull(), F.lit("it has no position of its database"))
    return frame.withColumn(DELETED, tombstone | gone).withColumn(REASON, F.when(~tombstone, reason))


def check_envelope(values: StructType, arguments: Namespace) -> None:
    """With --format debezium, raises JobFailed when the columns of the topic's values leave no place for an envelope,
    and when they may have it in JSON and the option --json-schema is missing."""
    names = values.fieldNames()
    if arguments.format != "debezium" or set(names) >= ENVELOPE:
        return
    if "value" not in names:
        raise JobFailed(f"--format debezium: the topic has {', '.join(names)}, but no op, before and after")
    value = values["value"].dataType
    if not isinstance(value, StructType):
        if not arguments.json_schema:
            raise JobFailed("--format debezium needs --json-schema: the topic's schema does not say what a row is")
    elif not set(value.fieldNames()) >= ENVELOPE:
        inside = ", ".join(value.fieldNames())
        raise JobFailed(f"--format debezium: the topic's values have {inside}, but no op, before and after")


def _envelope(frame: DataFrame, values: list[str], arguments: Namespace) -> Column:
    """Returns the envelope with op, before, after and source. These four are looked for in the topic's columns, in the
    columns of its value, and in its JSON, which may be bare or wrapped with its schema. Raises JobFailed as
    `check_envelope` does."""
    check_envelope(StructType([frame.schema[name] for name in values]), arguments)
    if set(values) >= ENVELOPE:
        return F.struct(*(F.col(f"`{name}`") for name in values))
    if isinstance(frame.schema["value"].dataType, StructType):
        return F.col("value")
    source = "struct<lsn string, file string, pos string, commit_lsn string, change_lsn string, scn string>"
    row = f"struct<{arguments.json_schema}>"
    text = F.col("value").cast("string")
    parsed = F.coalesce(F.get_json_object(text, "$.payload"), text)
    return F.from_json(parsed, f"op string, before {row}, after {row}, source {source}")


def _lsn(envelope: StructType) -> Column:
    """Returns the position of a change in its database's log, as text that sorts: PostgreSQL's lsn, MySQL's file and
    position, SQL Server's lsns, or Oracle's scn. The text is empty for a tombstone, and null for any other change that
    has no such position."""
    source = envelope["source"].dataType if "source" in envelope.names else None
    there = source.fieldNames() if isinstance(source, StructType) else []

    def part(name: str, width: int) -> Column:
        text = F.col(f"_change.source.{name}").cast("string") if name in there else F.lit(None).cast("string")
        return F.lpad(text, width, "0")

    file = F.col("_change.source.file").cast("string") if "file" in there else F.lit(None).cast("string")
    mysql = F.concat(F.lpad(F.regexp_extract(file, r"(\d+)$", 1), 12, "0"), part("pos", 20))
    # rows of SQL Server's initial snapshot have a commit_lsn only
    server = F.concat(part("commit_lsn", 32), F.coalesce(part("change_lsn", 32), F.lit("")))
    lsn = F.coalesce(part("lsn", 20), mysql, server, part("scn", 20))
    return F.when(F.col("_tombstone"), F.lit("")).otherwise(lsn)  # only the delete before a tombstone has an LSN


def latest(rows: DataFrame) -> DataFrame:
    """Returns the last change of each key. Changes are compared by LSN first. Changes of one partition are then
    compared by position; changes of a key that moved to another partition are compared by publish time."""
    inside = Window.partitionBy(KEY, TOPIC).orderBy(F.desc(LSN), F.desc(POSITION))
    among = Window.partitionBy(KEY).orderBy(F.desc(LSN), F.desc(PUBLISH_TIME), F.desc(TOPIC))
    for order in (inside, among):
        rows = rows.withColumn("_rank", F.row_number().over(order)).where("_rank = 1").drop("_rank")
    return rows


def younger(newest: DataFrame, state: DataFrame) -> DataFrame:
    """Returns the changes that are younger than the newest change of their key in `state`, which has the columns KEY,
    ORIGIN and LSN."""
    known = state.select(KEY, *(F.col(name).alias(f"_known{name}") for name in (*ORIGIN, LSN)))
    joined = newest.join(known, KEY, "left").withColumn("_known_position", position(f"_known{MESSAGE_ID}"))
    same_topic = F.col(TOPIC) == F.col(f"_known{TOPIC}")
    later = F.when(same_topic, F.col(POSITION) > F.col("_known_position")).otherwise(
        F.struct(PUBLISH_TIME, TOPIC)
        > F.struct(F.col(f"_known{PUBLISH_TIME}").alias(PUBLISH_TIME), F.col(f"_known{TOPIC}").alias(TOPIC))
    )
    wins = F.when(F.col(LSN) == F.col(f"_known{LSN}"), later).otherwise(F.col(LSN) > F.col(f"_known{LSN}"))
    return joined.where(F.col(f"_known{TOPIC}").isNull() | wins).select(*newest.columns)
