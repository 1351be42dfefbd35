"""Avro record definitions, which JSON and AVRO schemas both carry, as Spark types.

A union becomes the same type as in the published connector: null makes a column nullable, int|long is long,
float|double is double, and any other union is a struct with the fields member0, member1, … of which one is set.
Recursive records have no Spark type.
"""

import base64
import datetime
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

Convert = Callable[[Any], Any]
"""A function that turns a value from JSON or fastavro into a value that Arrow takes. The function is never called with
None."""


class UnsupportedSchema(Exception):
    """A schema has no Spark type. The text says which part of the schema has none."""


@dataclass(frozen=True, slots=True)
class ConvertedField:
    """A Spark type, whether it may be null, and how values of JSON and of Avro become Arrow's. A conversion of None
    leaves values as they are."""

    type: DataType
    nullable: bool = False
    from_json: Convert | None = None
    from_avro: Convert | None = None


def _millis(value: int) -> int:
    return int(value) * 1000


def _time_millis(value: datetime.time) -> int:
    return _time_micros(value) // 1000


def _time_micros(value: datetime.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


_SIMPLE: Mapping[str, ConvertedField] = {
    "null": ConvertedField(NullType(), nullable=True),
    "boolean": ConvertedField(BooleanType()),
    "int": ConvertedField(IntegerType()),
    "long": ConvertedField(LongType()),
    "float": ConvertedField(FloatType()),
    "double": ConvertedField(DoubleType()),
    "string": ConvertedField(StringType()),
    "bytes": ConvertedField(BinaryType(), from_json=base64.b64decode),
}
_LOGICAL: Mapping[str, ConvertedField] = {
    "date": ConvertedField(DateType()),
    "timestamp-millis": ConvertedField(TimestampType(), from_json=_millis),
    "timestamp-micros": ConvertedField(TimestampType(), from_json=int),
    "local-timestamp-millis": ConvertedField(TimestampNTZType(), from_json=_millis),
    "local-timestamp-micros": ConvertedField(TimestampNTZType(), from_json=int),
    "time-millis": ConvertedField(IntegerType(), from_avro=_time_millis),
    "time-micros": ConvertedField(LongType(), from_avro=_time_micros),
    "uuid": ConvertedField(StringType(), from_avro=str),
}
_WIDER = ({"int", "long"}, {"float", "double"})


def record_field(definition: bytes) -> ConvertedField:
    """Returns the Spark type and the conversions of a schema's whole definition. Raises UnsupportedSchema."""
    try:
        parsed = orjson.loads(definition)
    except orjson.JSONDecodeError as error:
        raise UnsupportedSchema(f"the schema's definition is not JSON: {error}") from error
    return _field(parsed, {}, ())


def with_nulls(kind: DataType) -> DataType:
    """Returns the type `kind` with all of its parts nullable. A JSON value may lack fields that its schema asks for,
    and Spark fails on a null in a type that allows none."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, with_nulls(field.dataType), True) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(with_nulls(kind.elementType), True)
    return MapType(kind.keyType, with_nulls(kind.valueType), True) if isinstance(kind, MapType) else kind


def _field(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> ConvertedField:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        schema = {"type": schema} if schema in _SIMPLE else _known(schema, named) or schema
    if not isinstance(schema, dict):
        raise UnsupportedSchema(f"type {schema!r} is unknown")
    kind: Any = schema.get("type")
    if isinstance(kind, dict | list):
        return _field(kind, named, inside)
    if kind in ("record", "enum", "fixed"):
        _remember(schema, named)
    if kind == "record":
        return _record(schema, named, inside)
    if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema)
    if kind == "enum":
        return ConvertedField(StringType())
    if kind == "fixed":
        return ConvertedField(BinaryType(), from_json=base64.b64decode)
    if kind == "array":
        return _array(_field(schema["items"], named, inside))
    if kind == "map":
        return _map(_field(schema["values"], named, inside))
    logical = _LOGICAL.get(schema.get("logicalType", ""))
    if logical is not None:
        return logical
    known = _known(kind, named)
    if known is not None:
        return _field(known, named, inside)
    if kind not in _SIMPLE:
        raise UnsupportedSchema(f"type {kind!r} is unknown")
    return _SIMPLE[kind]


def _remember(schema: dict[str, Any], named: dict[str, Any]) -> None:
    name = schema["name"]
    named[name] = named[name.rpartition(".")[2]] = schema
    if schema.get("namespace"):
        named[f"{schema['namespace']}.{name}"] = schema


def _known(name: str, named: dict[str, Any]) -> Any:
    """Returns the definition of a named type, or None for an unknown name. A type is found by its full name or by the
    last part of that name, because a type without a namespace has the namespace of the record around it."""
    return named.get(name) or named.get(name.rpartition(".")[2])


def _decimal(schema: dict[str, Any]) -> ConvertedField:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if precision > 38:
        raise UnsupportedSchema(f"decimal of {precision} digits; Spark has 38")
    return ConvertedField(DecimalType(precision, scale), from_json=lambda value: Decimal(str(value)))


def _record(schema: dict[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> ConvertedField:
    name = f"{schema.get('namespace', '')}.{schema['name']}"
    if name in inside:
        raise UnsupportedSchema(f"record {schema['name']} contains itself")
    fields = [(item["name"], _field(item["type"], named, (*inside, name))) for item in schema["fields"]]
    kind = StructType([StructField(key, field.type, field.nullable) for key, field in fields])
    return ConvertedField(kind, False, *(_for_record(fields, encoding) for encoding in ("from_json", "from_avro")))


def _for_record(fields: list[tuple[str, ConvertedField]], encoding: str) -> Convert | None:
    steps = [(name, convert) for name, field in fields if (convert := getattr(field, encoding)) is not None]
    if not steps:
        return None

    def convert_record(value: Any) -> Any:
        for name, convert in steps:
            item = value.get(name)
            if item is not None:
                value[name] = convert(item)
        return value

    return convert_record


def _array(item: ConvertedField) -> ConvertedField:
    def over(convert: Convert | None) -> Convert | None:
        return convert and (lambda values: [None if value is None else convert(value) for value in values])

    return ConvertedField(ArrayType(item.type, item.nullable), False, over(item.from_json), over(item.from_avro))


def _map(item: ConvertedField) -> ConvertedField:
    def over(convert: Convert | None) -> Convert:
        if convert is None:
            return lambda value: list(value.items())
        return lambda value: [(key, None if each is None else convert(each)) for key, each in value.items()]

    return ConvertedField(
        MapType(StringType(), item.type, item.nullable), False, over(item.from_json), over(item.from_avro)
    )


def _union(schemas: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> ConvertedField:
    real = [schema for schema in schemas if schema != "null"]
    nullable = len(real) < len(schemas)
    if not real:
        return _SIMPLE["null"]
    if len(real) == 1:
        field = _field(real[0], named, inside)
        return ConvertedField(field.type, nullable or field.nullable, field.from_json, field.from_avro)
    for wider in _WIDER:
        if all(isinstance(schema, str) for schema in real) and set(real) == wider:
            return ConvertedField(_SIMPLE[max(wider, key=len) if "double" in wider else "long"].type, nullable)
    members = [_field(schema, named, inside) for schema in real]
    kind = StructType([StructField(f"member{i}", member.type, True) for i, member in enumerate(members)])
    return ConvertedField(kind, nullable, _choose(members, "from_json"), _choose(members, "from_avro"))


_PYTHON_OF_AVRO: tuple[tuple[type[DataType], tuple[type, ...]], ...] = (
    (TimestampType, (datetime.datetime,)),
    (TimestampNTZType, (datetime.datetime,)),
    (DateType, (datetime.date,)),
    (DecimalType, (Decimal,)),
)
_PYTHON_OF_JSON: tuple[tuple[type[DataType], tuple[type, ...]], ...] = (
    (TimestampType, (int,)),
    (TimestampNTZType, (int,)),
    (DateType, (int,)),
    (DecimalType, (int, float, str)),
    (BinaryType, (str,)),
)
_PYTHON_OF: tuple[tuple[type[DataType], tuple[type, ...]], ...] = (
    (BooleanType, (bool,)),
    (StringType, (str, uuid.UUID)),
    (BinaryType, (bytes,)),
    (IntegerType, (int,)),
    (LongType, (int,)),
    (FloatType, (float, int)),
    (DoubleType, (float, int)),
    (StructType, (dict,)),
    (MapType, (dict,)),
    (ArrayType, (list,)),
)


def _choose(members: list[ConvertedField], encoding: str) -> Convert:
    """Returns the conversion of a union's values: a value is converted by the first member of the union whose type
    takes it."""
    table = (_PYTHON_OF_JSON if encoding == "from_json" else _PYTHON_OF_AVRO) + _PYTHON_OF
    kinds_of = [next(python for spark, python in table if isinstance(member.type, spark)) for member in members]

    def convert(value: Any) -> dict[str, Any]:
        for index, (member, kinds) in enumerate(zip(members, kinds_of, strict=True)):
            if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
                step = getattr(member, encoding)
                return {f"member{index}": value if step is None else step(value)}
        raise ValueError(f"{type(value).__name__} is none of the union's types")

    return convert
