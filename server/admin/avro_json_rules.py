"""Encodes a value that is written in Avro's JSON encoding as Avro's binary encoding. This module does no I/O.

The JSON encoding differs from plain JSON where a type is a union: null stands for itself, and any other value is an
object with one member, which names the branch, as in `{"string": "x"}`. Bytes and fixed types are strings whose
characters stand for one byte each. As with Java's library, the text of a record must have all of its fields, even those
with a default, and no others.

The encoder is our own although fastavro has one, because fastavro takes what Java refuses (a missing field, members
that the schema does not have, numbers of another kind) or names neither the field nor the reason.

Sources: the Avro specification 1.11, "JSON Encoding" and "Binary Encoding"; JsonDecoder of Java's library.
"""

import json
import struct
from typing import Any

from magnetar.server.schema.avro_schema import AvroKind, AvroSchema

VALUE_DEPTH_MAX = 100
"""How deep a value may be nested. A value can be nested deeper than its schema only if the schema has a record that
contains itself."""

INT_BITS, LONG_BITS = 32, 64
BYTE_MAX = 255
SHOWN_MAX = 60
SPECIAL_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class ValueFault(ValueError):
    """Raised for a text that is not a value of its schema. The error's text names the place and the reason."""


def json_of(text: str) -> Any:
    """Parses a JSON text and returns its value. Raises ValueFault when the text is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueFault(f"{shown(text)} is not JSON: {error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def encode_avro(schema: AvroSchema, text: str) -> bytes:
    """Returns the binary encoding of the value in `text`. Raises ValueFault when `text` is not a value of the
    schema."""
    out = bytearray()
    _write(schema, json_of(text), "", 0, out)
    return bytes(out)


def shown(value: Any) -> str:
    """Returns a value as an error's text shows it: as JSON, cut off if it is long."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _write(schema: AvroSchema, value: Any, place: str, depth: int, out: bytearray) -> None:
    """Appends the encoded value to `out`. `place` is the path of this value within the whole value, for error texts."""
    if depth > VALUE_DEPTH_MAX:
        raise ValueFault(f"the value is nested deeper than {VALUE_DEPTH_MAX}")
    match schema.kind:
        case AvroKind.PRIMITIVE:
            _write_primitive(schema.name, value, place, out)
        case AvroKind.RECORD | AvroKind.ERROR:
            _write_record(schema, value, place, depth, out)
        case AvroKind.ENUM:
            if not isinstance(value, str) or value not in schema.symbols:
                raise _fault(place, value, f"a symbol of {schema.full_name}")
            out += _long(schema.symbols.index(value))
        case AvroKind.FIXED:
            data = _bytes_of(value, place)
            if len(data) != schema.size:
                raise _fault(place, value, f"{schema.size} bytes of {schema.full_name}")
            out += data
        case AvroKind.ARRAY | AvroKind.MAP:
            _write_many(schema, value, place, depth, out)
        case AvroKind.UNION:
            _write_union(schema, value, place, depth, out)


def _write_record(schema: AvroSchema, value: Any, place: str, depth: int, out: bytearray) -> None:
    if not isinstance(value, dict):
        raise _fault(place, value, f"an object, for the record {schema.full_name}")
    known = {each.name for each in schema.fields}
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        raise ValueFault(f"{_at(place)}: the record {schema.full_name} has no field {shown(unknown)}")
    for each in schema.fields:
        if each.name not in value:
            raise ValueFault(f"{_at(place)}: the field {each.name} of the record {schema.full_name} is missing")
        _write(each.schema, value[each.name], f"{place}.{each.name}", depth + 1, out)


def _write_many(schema: AvroSchema, value: Any, place: str, depth: int, out: bytearray) -> None:
    assert schema.inner is not None, "arrays and maps have an inner type"
    is_map = schema.kind is AvroKind.MAP
    if not isinstance(value, dict if is_map else list):
        raise _fault(place, value, "an object, for a map" if is_map else "an array")
    if value:
        out += _long(len(value))
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if is_map:
            _write_primitive("string", key, place, out)
        _write(schema.inner, each, f"{place}[{shown(key)}]", depth + 1, out)
    out += _long(0)


def _write_union(schema: AvroSchema, value: Any, place: str, depth: int, out: bytearray) -> None:
    names = [branch.full_name for branch in schema.branches]
    name: Any = "null"
    inner = None
    if value is not None:
        if not isinstance(value, dict) or len(value) != 1:
            raise _fault(place, value, f'null or an object like {{"type": value}}, for the union of {", ".join(names)}')
        ((name, inner),) = value.items()
    if name not in names:
        raise ValueFault(f"{_at(place)}: {shown(name)} is no branch of the union of {', '.join(names)}")
    index = names.index(name)
    out += _long(index)
    _write(schema.branches[index], inner, place, depth + 1, out)


def _write_primitive(kind: str, value: Any, place: str, out: bytearray) -> None:
    match kind:
        case "null":
            if value is not None:
                raise _fault(place, value, "null")
        case "boolean":
            if not isinstance(value, bool):
                raise _fault(place, value, "true or false")
            out.append(value)
        case "int" | "long":
            bits = INT_BITS if kind == "int" else LONG_BITS
            if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise _fault(place, value, f"a whole number of {bits} bits")
            out += _long(value)
        case "float" | "double":
            out += _floating(kind, value, place)
        case "bytes":
            data = _bytes_of(value, place)
            out += _long(len(data)) + data
        case _:
            if not isinstance(value, str):
                raise _fault(place, value, "a string")
            try:
                data = value.encode()
            except UnicodeEncodeError:
                raise _fault(place, value, "a string of whole characters") from None
            out += _long(len(data)) + data


def _floating(kind: str, value: Any, place: str) -> bytes:
    number = SPECIAL_NUMBERS.get(value) if isinstance(value, str) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise _fault(place, value, "a number")
    try:
        return struct.pack("<f" if kind == "float" else "<d", number)
    except (OverflowError, struct.error):
        raise _fault(place, value, f"a number in the range of a {kind}") from None


def _bytes_of(value: Any, place: str) -> bytes:
    if not isinstance(value, str) or any(ord(each) > BYTE_MAX for each in value):
        raise _fault(place, value, "a string whose characters stand for one byte each")
    return value.encode("latin-1")


def _long(value: int) -> bytes:
    """Returns a number in Avro's encoding: zigzag, then seven bits a byte."""
    rest = (value << 1) ^ (value >> LONG_BITS - 1)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _fault(place: str, value: Any, wanted: str) -> ValueFault:
    return ValueFault(f"{_at(place)} must be {wanted}, not {shown(value)}")


def _at(place: str) -> str:
    return place.removeprefix(".") or "the value"
