"""Turns Arrow batches into messages: some columns are metadata, all other columns become the value, as in the published
connector's sink.

When there is only one value column and it is no struct, its values are written by the primitive schema of the column's
type. Otherwise the value columns are the fields of an Avro record `topLevelRecord`, or of JSON when the topic's schema
is JSON already.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, CharType, LongType, StringType, StructType, TimestampType, VarcharType

from magnetar.spark.source.client.partition_producer import OutgoingMessage
from magnetar.spark.source.columns.avro_definition import BadColumns
from magnetar.spark.source.columns.metadata_columns import EVENT_TIME, KEY, MESSAGE_ID, PROPERTIES, PUBLISH_TIME, TOPIC
from magnetar.spark.source.columns.value_encoders import encoder_of
from pulsar_proto.pb import pulsar_api_pb2 as pb

IGNORED = (MESSAGE_ID, PUBLISH_TIME)
"""Columns that are not written, because the broker sets them for each message."""


class MessageBuilder:
    """Turns the rows of one query into messages."""

    def __init__(self, columns: StructType, topic: str, existing: pb.Schema | None) -> None:
        """`existing` is the topic's schema, or None. Raises BadColumns when the columns cannot be written."""
        names = set(columns.fieldNames())
        if not topic and TOPIC not in names:
            raise BadColumns("neither the option topic nor a column __topic says where to write")
        self._topic = topic
        self._names = names
        value_fields = [
            field for field in columns.fields if field.name not in (KEY, TOPIC, EVENT_TIME, PROPERTIES, *IGNORED)
        ]
        if not value_fields:
            raise BadColumns("there is no column besides the metadata columns: nothing to write")
        _check_metadata(columns)
        self._event_micros = _check_event_time(columns)
        self._encoder = encoder_of(value_fields, existing)
        self.schema = self._encoder.schema

    def messages(self, batch: pa.RecordBatch) -> Iterator[OutgoingMessage]:
        """Yields a message for each row, in order. Raises BadColumns for a row that cannot be written."""
        rows = batch.num_rows
        nothing: list[Any] = [None] * rows
        column = {name: batch.column(name).to_pylist() for name in self._names if name in (KEY, TOPIC, PROPERTIES)}
        times = nothing
        if EVENT_TIME in self._names:
            times = batch.column(EVENT_TIME).cast(pa.int64()).to_pylist()
        divisor = 1000 if self._event_micros else 1
        values = self._encoder.values(batch)
        topics = [self._topic] * rows if self._topic else column[TOPIC]
        for topic, key, time, properties, value in zip(
            topics, column.get(KEY, nothing), times, column.get(PROPERTIES, nothing), values, strict=True
        ):
            if not topic:
                raise BadColumns("column __topic is null in a row")
            yield OutgoingMessage(
                topic,
                key.encode() if isinstance(key, str) else key,
                0 if time is None else max(0, time // divisor),
                _checked(properties),
                value,
            )


_TEXT = StringType | VarcharType | CharType


def _check_metadata(columns: StructType) -> None:
    for field in columns.fields:
        kind = field.dataType
        fits, expected = {
            KEY: (isinstance(kind, BinaryType | _TEXT), "string or binary"),
            TOPIC: (isinstance(kind, _TEXT), "string"),
            PROPERTIES: (kind.simpleString() == "map<string,string>", "map<string,string>"),
        }.get(field.name, (True, ""))
        if not fits:
            raise BadColumns(f"column {field.name} is {kind.simpleString()}: expected {expected}")


def _check_event_time(columns: StructType) -> bool:
    """Returns whether event times are timestamps, which Arrow has in microseconds, and not numbers of milliseconds.
    Raises BadColumns when event times are neither."""
    field = next((field for field in columns.fields if field.name == EVENT_TIME), None)
    if field is None or isinstance(field.dataType, LongType):
        return False
    if isinstance(field.dataType, TimestampType):
        return True
    raise BadColumns(f"column __eventTime is {field.dataType.simpleString()}: expected timestamp, or bigint (ms)")


def _checked(properties: Any) -> tuple[tuple[str, str], ...]:
    if not properties:
        return ()
    pairs = tuple(properties.items() if isinstance(properties, dict) else properties)
    for name, value in pairs:
        if value is None:
            raise BadColumns(f"property {name} of a row is null")
    return pairs
