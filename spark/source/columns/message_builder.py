"""Turns Arrow batches into messages: some columns are metadata, all other columns become the value, as in the published
connector's sink.

When there is only one value column and it is no struct, its values are written by the primitive schema of the column's
type. Otherwise the value columns are the fields of an Avro record `topLevelRecord`, or of JSON when the topic's schema
is JSON already. The columns `key` and `value` as text or bytes, as users of Spark's sink for Kafka write them, are the
key and the value of a message (`kafka_columns`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    CharType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from magnetar.spark.source.client.partition_producer import OutgoingMessage
from magnetar.spark.source.columns.avro_definition import BadColumns
from magnetar.spark.source.columns.metadata_columns import (
    EVENT_TIME,
    KEY,
    MESSAGE_ID,
    ORDERING_KEY,
    PARTITION,
    PROPERTIES,
    PUBLISH_TIME,
    TOPIC,
)
from magnetar.spark.source.columns.value_encoders import encoder_of
from pulsar_proto.pb import pulsar_api_pb2 as pb

WRITTEN = (KEY, TOPIC, PARTITION, ORDERING_KEY, EVENT_TIME, PROPERTIES)
IGNORED = (MESSAGE_ID, PUBLISH_TIME)
"""Columns that are not written, because the broker sets them for each message."""
KAFKA_NAMES = {"key": KEY, "topic": TOPIC, "partition": PARTITION, "headers": PROPERTIES}
"""The columns of Spark's sink for Kafka besides `value`, each with its name here."""


class MessageBuilder:
    """Turns the rows of one query into messages."""

    def __init__(self, columns: StructType, topic: str, existing: pb.Schema | None) -> None:
        """`existing` is the topic's schema, or None. Raises BadColumns when the columns cannot be written."""
        _check_names(columns)
        self._source = {name: name for name in WRITTEN if name in columns.fieldNames()}
        """The name of the column that each kind of metadata comes from."""
        self._source |= {meaning: name for name, meaning in kafka_columns(columns, existing).items()}
        if not topic and TOPIC not in self._source:
            raise BadColumns("neither the option topic nor a column __topic says where to write")
        self._topic = topic
        metadata = {*self._source.values(), *IGNORED}
        value_fields = [field for field in columns.fields if field.name not in metadata]
        if not value_fields:
            raise BadColumns("there is no column besides the metadata columns: nothing to write")
        _check_metadata(columns, self._source)
        self._event_micros = _check_event_time(columns)
        self._encoder = encoder_of(value_fields, existing)
        self.schema = self._encoder.schema

    def messages(self, batch: pa.RecordBatch) -> Iterator[OutgoingMessage]:
        """Yields a message for each row, in order. Raises BadColumns for a row that cannot be written."""
        rows = batch.num_rows
        nothing: list[Any] = [None] * rows

        def column(name: str) -> list[Any]:
            return batch.column(self._source[name]).to_pylist() if name in self._source else nothing

        times = nothing
        if EVENT_TIME in self._source:
            times = batch.column(EVENT_TIME).cast(pa.int64()).to_pylist()
        divisor = 1000 if self._event_micros else 1
        for topic, key, time, properties, value, ordering_key, partition in zip(
            [self._topic] * rows if self._topic else column(TOPIC),
            column(KEY),
            times,
            column(PROPERTIES),
            self._encoder.values(batch),
            column(ORDERING_KEY),
            column(PARTITION),
            strict=True,
        ):
            if not topic:
                raise BadColumns(f"column {self._source[TOPIC]} is null in a row")
            yield OutgoingMessage(
                topic,
                _bytes(key),
                0 if time is None else max(0, time // divisor),
                _checked(properties),
                value,
                _bytes(ordering_key),
                partition,
            )


def kafka_columns(columns: StructType, existing: pb.Schema | None) -> Mapping[str, str]:
    """Returns which columns are metadata although they have no name of metadata: those of KAFKA_NAMES, when the columns
    are those that users of Spark's sink for Kafka write. They are `key` and `value`, both text or bytes, and nothing
    else than the other columns of that sink and metadata. Where the topic has a schema of records, `key` and `value`
    are fields of a record, and the result is empty."""
    kinds = {field.name: field.dataType for field in columns.fields if field.name not in (*WRITTEN, *IGNORED)}
    pair = [kinds.get(name) for name in ("key", "value")]
    if KEY in columns.fieldNames() or not all(isinstance(kind, BinaryType | _TEXT) for kind in pair):
        return {}
    if existing is not None and existing.type in (pb.Schema.Json, pb.Schema.Avro):
        return {}
    if not set(kinds) <= {"value", *KAFKA_NAMES}:
        return {}
    return {name: meaning for name, meaning in KAFKA_NAMES.items() if name in kinds}


_TEXT = StringType | VarcharType | CharType


_HEADERS = "array<struct<key:string,value:binary>>"


def _check_names(columns: StructType) -> None:
    """Raises BadColumns for a column with a name like those of metadata that is none of them: as a field of the value,
    a misspelt name would go unnoticed."""
    unknown = [name for name in columns.fieldNames() if name.startswith("__") and name not in (*WRITTEN, *IGNORED)]
    if unknown:
        raise BadColumns(
            f"column {unknown[0]} is no metadata that can be written; those are {', '.join(WRITTEN)}. "
            "A field of the value must not begin with __: rename it"
        )


def _check_metadata(columns: StructType, source: Mapping[str, str]) -> None:
    for meaning, name in source.items():
        kind = columns[name].dataType
        fits, expected = {
            KEY: (isinstance(kind, BinaryType | _TEXT), "string or binary"),
            ORDERING_KEY: (isinstance(kind, BinaryType | _TEXT), "string or binary"),
            TOPIC: (isinstance(kind, _TEXT), "string"),
            PARTITION: (isinstance(kind, ByteType | ShortType | IntegerType | LongType), "int"),
            PROPERTIES: (
                kind.simpleString() == ("map<string,string>" if name == PROPERTIES else _HEADERS),
                "map<string,string>" if name == PROPERTIES else _HEADERS,
            ),
        }.get(meaning, (True, ""))
        if not fits:
            raise BadColumns(f"column {name} is {kind.simpleString()}: expected {expected}")


def _bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


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
    """Returns the properties of a message from a map, or from headers as those of Kafka. Raises BadColumns for what
    cannot be a property."""
    if not properties:
        return ()
    pairs = properties.items() if isinstance(properties, dict) else properties
    found = []
    for name, value in (tuple(pair.values()) if isinstance(pair, dict) else pair for pair in pairs):
        if name is None or value is None:
            raise BadColumns(f"property {name} of a row is null")
        try:
            found.append((name, value.decode() if isinstance(value, bytes) else value))
        except UnicodeDecodeError:
            raise BadColumns(f"header {name} of a row is no UTF-8 text, which properties of messages are") from None
    return tuple(found)
