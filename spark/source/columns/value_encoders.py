"""Encodes the value columns of a query, which are those that are not metadata. The columns become values of a primitive
schema, or records in Avro or JSON."""

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import fastavro
import orjson
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.spark.source.columns.avro_definition import BadColumns, avro_definition
from magnetar.spark.source.columns.json_fit import misfit, never_null
from magnetar.spark.source.columns.json_values import micros, plain
from pulsar_proto.pb import pulsar_api_pb2 as pb

Encode = Callable[[Any], bytes]

_NUMBERS: dict[type[DataType], tuple[int, int]] = {
    ByteType: (pb.Schema.Int8, 1),
    ShortType: (pb.Schema.Int16, 2),
    IntegerType: (pb.Schema.Int32, 4),
    LongType: (pb.Schema.Int64, 8),
}


class ValueEncoder(Protocol):
    """Turns a query's value columns into the values of messages."""

    @property
    def schema(self) -> pb.Schema | None:
        """The schema that producers announce, None for bytes without a schema."""

    def values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        """Returns a value for each row, None for a tombstone. Raises BadColumns for a row that does not fit the topic's
        schema."""


def encoder_of(fields: Sequence[StructField], existing: pb.Schema | None) -> ValueEncoder:
    """Returns the encoder of these columns. `existing` is the topic's schema, or None. Raises BadColumns when the
    columns cannot be written."""
    if len(fields) == 1 and not isinstance(fields[0].dataType, StructType):
        return _Primitives(fields[0])
    record = StructType(list(fields))
    if existing is not None and existing.type == pb.Schema.Json:
        return _JsonRecords(record, existing)
    return _AvroRecords(record)


class _Primitives:
    """Encodes a single column as values of its primitive schema."""

    def __init__(self, field: StructField) -> None:
        self._name = field.name
        self.schema, self._encode = _primitive(field)

    def values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        encode = self._encode
        return [None if value is None else encode(value) for value in batch.column(self._name).to_pylist()]


class _RecordRows:
    """Turns record batches into dictionaries, one for each row."""

    def __init__(self, record: StructType) -> None:
        self._names = record.fieldNames()
        self._dicts = _dicts_of(record)

    def of(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = batch.select(self._names).to_pylist()
        return rows if self._dicts is None else [self._dicts(row) for row in rows]


class _AvroRecords:
    """Encodes the columns as Avro records of a schema that follows from them."""

    def __init__(self, record: StructType) -> None:
        definition = orjson.dumps(avro_definition(record))
        self.schema = pb.Schema(name="", type=pb.Schema.Avro, schema_data=definition)
        self._avro: Any = fastavro.parse_schema(orjson.loads(definition))
        self._rows = _RecordRows(record)

    def values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        return [_to_avro(self._avro, row) for row in self._rows.of(batch)]


class _JsonRecords:
    """Encodes records as JSON of the schema that the topic has already."""

    def __init__(self, record: StructType, schema: pb.Schema) -> None:
        self.schema = schema
        definition, topic = avro_definition(record), orjson.loads(schema.schema_data)
        if said := misfit(definition, topic):
            raise BadColumns(said)
        self._never_null = never_null(definition, topic)
        self._in_micros = topic if b"-micros" in schema.schema_data else None
        self._rows = _RecordRows(record)

    def values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        for name in self._never_null:
            if batch.column(name).null_count:
                raise BadColumns(f"column {name} is null in a row; the topic's JSON schema allows no null")
        return [orjson.dumps(plain(row, self._in_micros)) for row in self._rows.of(batch)]


def _primitive(field: StructField) -> tuple[pb.Schema | None, Encode]:
    kind = type(field.dataType)
    if kind is BinaryType:
        return None, bytes
    if kind is StringType:
        return pb.Schema(name="String", type=pb.Schema.String, schema_data=b""), str.encode
    if kind in _NUMBERS:
        number, width = _NUMBERS[kind]
        schema = pb.Schema(name=f"INT{width * 8}", type=pb.Schema.Type.ValueType(number), schema_data=b"")
        return schema, lambda value: int(value).to_bytes(width, "big", signed=True)
    if kind is BooleanType:
        return pb.Schema(name="Boolean", type=pb.Schema.Bool, schema_data=b""), lambda value: bytes([value])
    if kind in (FloatType, DoubleType):
        code, number = (">f", pb.Schema.Float) if kind is FloatType else (">d", pb.Schema.Double)
        name = "Float" if kind is FloatType else "Double"
        return pb.Schema(name=name, type=number, schema_data=b""), struct.Struct(code).pack
    if kind is TimestampType:
        schema = pb.Schema(name="Timestamp", type=pb.Schema.Timestamp, schema_data=b"")
        return schema, lambda value: (micros(value) // 1000).to_bytes(8, "big", signed=True)
    raise BadColumns(f"column {field.name} of type {field.dataType.simpleString()} cannot be a value of its own")


def _to_avro(schema: Any, row: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, row)
    return buffer.getvalue()


def _dicts_of(kind: DataType) -> Callable[[Any], Any] | None:
    """Returns a function that turns the maps in a value of the type into dicts; Arrow gives them as lists of pairs.
    Returns None when the type holds no map."""
    if isinstance(kind, MapType):
        of_value = _dicts_of(kind.valueType) or _same
        return lambda pairs: None if pairs is None else {name: of_value(item) for name, item in pairs}
    if isinstance(kind, ArrayType):
        of_item = _dicts_of(kind.elementType)
        return of_item and (lambda items: None if items is None else [of_item(item) for item in items])
    if not isinstance(kind, StructType):
        return None
    steps = [(field.name, step) for field in kind.fields if (step := _dicts_of(field.dataType)) is not None]
    return (
        (lambda row: None if row is None else row | {name: step(row[name]) for name, step in steps}) if steps else None
    )


def _same(value: Any) -> Any:
    return value
