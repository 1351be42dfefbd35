"""Arrow batches to messages: which columns are metadata, and how the others become a value (facts 2.5).

One other column, not a struct, is a value of its primitive schema; otherwise the columns are an Avro record
`topLevelRecord`, or JSON where the topic's schema is JSON already.
"""

import base64
import datetime
import decimal
import io
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import fastavro
import orjson
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from pulsar_proto.pb import pulsar_api_pb2 as pb
from spark.source.columns import EVENT_TIME, KEY, MESSAGE_ID, PROPERTIES, PUBLISH_TIME, TOPIC
from spark.source.json_fit import misfit, never_null

RECORD_NAME = "topLevelRecord"
IGNORED = (MESSAGE_ID, PUBLISH_TIME)
"""The broker gives both anew."""

Encode = Callable[[Any], bytes]


class BadColumns(ValueError):
    """The query's columns cannot be written; the text names the column."""


class Message(NamedTuple):
    """One row. `event_time`: milliseconds, 0 for none; `value` None: a tombstone."""

    topic: str
    key: bytes | None
    event_time: int
    properties: tuple[tuple[str, str], ...]
    value: bytes | None
    ordering_key: bytes | None = None


_NUMBERS: dict[type[DataType], tuple[int, int]] = {
    ByteType: (pb.Schema.Int8, 1),
    ShortType: (pb.Schema.Int16, 2),
    IntegerType: (pb.Schema.Int32, 4),
    LongType: (pb.Schema.Int64, 8),
}
_AVRO: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


class Outgoing:
    """How the rows of one query become messages."""

    def __init__(self, columns: StructType, topic: str, existing: pb.Schema | None) -> None:
        """`existing`: the topic's schema, if it has one. Raises BadColumns."""
        names = set(columns.fieldNames())
        if not topic and TOPIC not in names:
            raise BadColumns("neither the option topic nor a column __topic says where to write")
        self._topic = topic
        self._names = names
        self._value_fields = [
            field for field in columns.fields if field.name not in (KEY, TOPIC, EVENT_TIME, PROPERTIES, *IGNORED)
        ]
        if not self._value_fields:
            raise BadColumns("there is no column besides the metadata columns: nothing to write")
        _check_metadata(columns)
        self._event_micros = _check_event_time(columns)
        self._is_record = len(self._value_fields) > 1 or isinstance(self._value_fields[0].dataType, StructType)
        self._as_json = existing is not None and existing.type == pb.Schema.Json
        if self._is_record:
            self._record = StructType(self._value_fields)
            self._dicts = _dicts_of(self._record)
            definition = avro_definition(self._record)
            self._avro = fastavro.parse_schema(orjson.loads(orjson.dumps(definition)))
            kind = pb.Schema.Json if self._as_json else pb.Schema.Avro
            self.schema: pb.Schema | None = pb.Schema(name="", type=kind, schema_data=orjson.dumps(definition))
            self._never_null: list[str] = []
            self._in_micros: dict[str, Any] | None = None
            if self._as_json:
                self.schema = existing
                self._fit(definition)
        else:
            self.schema, self._encode = _primitive(self._value_fields[0])

    def _fit(self, definition: dict[str, Any]) -> None:
        """What the topic's JSON schema asks of rows. Raises BadColumns when these are none of it."""
        assert self.schema is not None
        topic = orjson.loads(self.schema.schema_data)
        if said := misfit(definition, topic):
            raise BadColumns(said)
        self._never_null = never_null(definition, topic)
        if b"-micros" in self.schema.schema_data:
            self._in_micros = topic

    def messages(self, batch: pa.RecordBatch) -> Iterator[Message]:
        """One a row, in order."""
        rows = batch.num_rows
        nothing: list[Any] = [None] * rows
        column = {name: batch.column(name).to_pylist() for name in self._names if name in (KEY, TOPIC, PROPERTIES)}
        times = nothing
        if EVENT_TIME in self._names:
            times = batch.column(EVENT_TIME).cast(pa.int64()).to_pylist()
        divisor = 1000 if self._event_micros else 1
        values = self._values(batch)
        topics = [self._topic] * rows if self._topic else column[TOPIC]
        for topic, key, time, properties, value in zip(
            topics, column.get(KEY, nothing), times, column.get(PROPERTIES, nothing), values, strict=True
        ):
            if not topic:
                raise BadColumns("column __topic is null in a row")
            yield Message(
                topic,
                key.encode() if isinstance(key, str) else key,
                0 if time is None else max(0, time // divisor),
                _checked(properties),
                value,
            )

    def _values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        names = [field.name for field in self._value_fields]
        if not self._is_record:
            encode = self._encode
            return [None if value is None else encode(value) for value in batch.column(names[0]).to_pylist()]
        rows = batch.select(names).to_pylist()
        if self._dicts is not None:
            rows = [self._dicts(row) for row in rows]
        if self._as_json:
            for name in self._never_null:
                if batch.column(name).null_count:
                    raise BadColumns(f"column {name} is null in a row; the topic's JSON schema allows no null")
            return [orjson.dumps(plain(row, self._in_micros)) for row in rows]
        return [_to_avro(self._avro, row) for row in rows]


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
    """True: a timestamp, in microseconds; False: a number of milliseconds."""
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
        return schema, lambda value: (_micros(value) // 1000).to_bytes(8, "big", signed=True)
    raise BadColumns(f"column {field.name} of type {field.dataType.simpleString()} cannot be a value of its own")


def avro_definition(record: StructType, name: str = RECORD_NAME) -> dict[str, Any]:
    """An Avro record with `[T, "null"]` unions for nullable fields, as Spark's Avro writer names things."""
    fields = []
    for field in record.fields:
        kind = _avro_type(field.dataType, f"{name}.{field.name}")
        fields.append({"name": field.name, "type": [kind, "null"] if field.nullable else kind})
    simple, _, namespace = name[::-1].partition(".")
    definition = {"type": "record", "name": simple[::-1], "fields": fields}
    return {**definition, "namespace": namespace[::-1]} if namespace else definition


def _avro_type(kind: DataType, name: str) -> Any:
    if isinstance(kind, StructType):
        return avro_definition(kind, name)
    if isinstance(kind, ArrayType):
        item = _avro_type(kind.elementType, name)
        return {"type": "array", "items": [item, "null"] if kind.containsNull else item}
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise BadColumns(f"{name}: maps need string keys")
        item = _avro_type(kind.valueType, name)
        return {"type": "map", "values": [item, "null"] if kind.valueContainsNull else item}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if type(kind) not in _AVRO:
        raise BadColumns(f"{name} of type {kind.simpleString()} has no Avro type")
    return _AVRO[type(kind)]


def _to_avro(schema: Any, row: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, row)
    return buffer.getvalue()


def _dicts_of(kind: DataType) -> Callable[[Any], Any] | None:
    """Arrow gives maps as lists of pairs; how a value of the type gets dicts instead. None: it holds no map."""
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


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _micros(value: datetime.datetime) -> int:
    """Since the epoch; a time without a zone is taken as it stands, wherever the executor is."""
    return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND


def plain(value: Any, definition: Any = None) -> Any:
    """What orjson writes: timestamps become milliseconds, bytes base64, decimals numbers, or text where no float is
    the same number. `definition`: Avro's of the value, if some of its timestamps are in microseconds."""
    if isinstance(value, dict):
        fields = _definitions(definition)
        return {key: plain(item, fields(key)) for key, item in value.items()}
    if isinstance(value, list):
        inside = _part(definition).get("items")
        return [plain(item, inside) for item in value]
    if isinstance(value, datetime.datetime):
        in_micros = str(_part(definition).get("logicalType")).endswith("-micros")
        return _micros(value) if in_micros else _micros(value) // 1000
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return float(value) if decimal.Decimal(repr(float(value))) == value else str(value)
    return value


def _part(definition: Any) -> dict[str, Any]:
    """The definition itself, out of its union with null; empty where it is a name or nothing."""
    if isinstance(definition, list):
        definition = next((each for each in definition if each != "null"), None)
    if isinstance(definition, dict) and isinstance(definition.get("type"), dict | list):
        return _part(definition["type"])
    return definition if isinstance(definition, dict) else {}


def _definitions(definition: Any) -> Callable[[str], Any]:
    """Of a record's fields or a map's values, by name."""
    if definition is None:
        return _nothing
    part = _part(definition)
    if "values" in part:
        return lambda name: part["values"]
    return {field["name"]: field["type"] for field in part.get("fields", ())}.get


def _nothing(name: str) -> None:
    return None
