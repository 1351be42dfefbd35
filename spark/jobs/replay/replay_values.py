"""Encodes transformed values as the bytes that the target topic's schema asks for.

Spark's rows come as Python objects. When a value does not fit, either the message is wrong (BadRow) or the expression
is wrong for every message (BadTransform).
"""

import io
from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as struct_error
from typing import Any

import fastavro
import orjson

from magnetar.spark.source.columns.json_values import plain
from pulsar_proto.pb import pulsar_api_pb2 as pb

Encode = Callable[[Mapping[str, Any]], bytes]
"""A function that takes a row, as a mapping of its value columns by their names, and returns the message's value. The
function raises BadRow when the message is wrong and BadTransform when the expression is."""

VALUE = "value"
_NUMBERS = {
    pb.Schema.Int8: ">b",
    pb.Schema.Int16: ">h",
    pb.Schema.Int32: ">i",
    pb.Schema.Int64: ">q",
    pb.Schema.Float: ">f",
    pb.Schema.Double: ">d",
    pb.Schema.Bool: ">?",
}


class BadRow(Exception):
    """One message cannot be transformed as asked; the text says why."""


class BadTransform(Exception):
    """No message can be transformed as asked; the text says why."""


def encoder_of(schema: pb.Schema | None) -> Encode:
    """Returns the encoder for the target's schema, which is None for a topic of bytes. Raises BadTransform for kinds of
    schema that cannot be written."""
    kind = pb.Schema.Type.Name(schema.type) if schema is not None else "None"
    if schema is None or kind in ("None", "String"):
        return _text
    if kind in ("Json", "Avro"):
        return _record(schema, as_json=kind == "Json")
    if schema.type in _NUMBERS:
        return _number(_NUMBERS[schema.type], kind)
    raise BadTransform(f"values of a {kind} schema cannot be transformed, keys and properties can")


def _only(row: Mapping[str, Any]) -> Any:
    if list(row) != [VALUE]:
        raise BadTransform(f"the target has no record schema, the transformed value has the columns {', '.join(row)}")
    if row[VALUE] is None:
        raise BadRow("the transform made null of it")
    return row[VALUE]


def _text(row: Mapping[str, Any]) -> bytes:
    value = _only(row)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise BadTransform(f"the target takes text or bytes, the transform gives {type(value).__name__}: cast it")


def _number(code: str, kind: str) -> Encode:
    pack = Struct(code).pack

    def encode(row: Mapping[str, Any]) -> bytes:
        value = _only(row)
        try:
            return pack(value)
        except struct_error as error:
            raise BadRow(f"{value!r} is no {kind}: {error}") from error

    return encode


def _record(schema: pb.Schema, *, as_json: bool) -> Encode:
    """Returns the encoder of JSON or Avro records. For both kinds Avro's writer checks that a row has all fields of the
    schema that have no default, and that the values are of the right types."""
    parsed: Any = fastavro.parse_schema(orjson.loads(schema.schema_data))
    known = [field["name"] for field in parsed["fields"]]

    def encode(row: Mapping[str, Any]) -> bytes:
        unknown = [name for name in row if name not in known]
        if unknown:
            raise BadTransform(f"the target's schema has no field {unknown[0]}; it has {', '.join(known)}")
        buffer = io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, parsed, row, strict_allow_default=True)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct_error) as error:
            raise BadRow(f"it does not fit the target's schema: {error}") from error
        return orjson.dumps(plain(row)) if as_json else buffer.getvalue()

    return encode
