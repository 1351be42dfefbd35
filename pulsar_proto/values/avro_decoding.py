"""Decodes values of Avro to what JSON shows. Definitions and values both come from strangers. This module does no I/O.

Two attacks are refused that fastavro does not survive:

- A schema that holds itself takes a value of any depth, and the compiled reader ends the process when the depth
  exhausts the stack. Such schemas are read by fastavro's reader in Python, which raises RecursionError.
- An array whose items take no bytes, such as nulls, can have 2^63 of them in ten bytes. Such a schema has no decoder.

Source: the Avro specification 1.11.
"""

import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
from fastavro import _read_py

Decoder = Callable[[bytes], Any]
"""Returns what JSON shows of a value. Raises ValueError for bytes that are no value of the schema."""

_NO_BYTES = {"null"}
"""The primitive types whose values take no bytes."""
_HOLDERS = ("type", "items", "values")


def check_avro(definition: Any) -> None:
    """Raises ValueError when the definition is no Avro schema."""
    try:
        fastavro.parse_schema(definition)
    except Exception as error:  # fastavro raises KeyError, TypeError and errors of its own for what is no schema.
        raise ValueError(f"this is no Avro schema: {type(error).__name__}: {error}") from None


def parsed(definition: Any) -> Any:
    """Returns the schema without logical types, so that a value is what it is stored as. Raises ValueError when the
    definition is no Avro schema."""
    check_avro(definition)
    return fastavro.parse_schema(_without_logical(definition))


def avro_decoder(definition: str) -> Decoder:
    """Returns the decoder of an Avro schema. Raises ValueError when the definition is no Avro schema, or when a few
    bytes could stand for an array of any length."""
    schema = parsed(json_value(definition.encode()))
    read = reader_of(schema)

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            value = read(stream, schema, None)
            shown = for_json(value)
        except Exception as error:  # fastavro raises EOFError, IndexError, struct.error and more for foreign bytes.
            raise ValueError(f"this is no value of the Avro schema: {type(error).__name__}") from None
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow the value of the Avro schema")
        return shown

    return decode


def reader_of(schema: Any) -> Callable[..., Any]:
    """Returns the `schemaless_reader` of fastavro that survives values of strangers that were written by this parsed
    schema. Raises ValueError when a few bytes could stand for an array of any length."""
    named: dict[str, Any] = {}
    collect_names(schema, named)
    if _has_items_without_bytes(schema, named):
        raise ValueError("the Avro schema has an array whose items take no bytes; its values are not decoded")
    reader: Callable[..., Any] = (_read_py if _holds_itself(schema, named) else fastavro).schemaless_reader
    return reader


def collect_names(schema: Any, named: dict[str, Any]) -> None:
    """Enters the named types of a parsed schema, whose names are full, into `named`."""
    for each in _parts(schema):
        if isinstance(each, dict) and "name" in each and each["type"] in ("record", "error", "enum", "fixed"):
            named[each["name"]] = each


def json_value(text: bytes) -> Any:
    """Parses JSON as its specification has it: no NaN, no number beyond a double. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def for_json(value: Any) -> Any:
    """Returns what JSON shows of a decoded value: bytes as texts whose characters stand for one byte each, and special
    numbers by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list):
        return [for_json(each) for each in value]
    if isinstance(value, dict):
        return {name: for_json(each) for name, each in value.items()}
    return value


def _refuse_number(text: str) -> Any:
    raise ValueError(f"{text} is no number that JSON can hold")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _without_logical(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_logical(each) for each in tree]
    if isinstance(tree, dict):
        return {
            name: each if name == "default" else _without_logical(each)
            for name, each in tree.items()
            if name != "logicalType"
        }
    return tree


def _children(schema: Any) -> list[Any]:
    """Returns the schemas that a parsed schema names directly: branches of a union, types of fields, items, values."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    inner = [schema[holder] for holder in _HOLDERS if isinstance(schema.get(holder), dict | list | str)]
    return [*inner, *(each["type"] for each in schema.get("fields", ()))]


def _parts(schema: Any) -> list[Any]:
    """Returns a parsed schema and all schemas that are written within it."""
    found, waiting = [], [schema]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += _children(each)
    return found


def _holds_itself(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether a named type can occur within its own value."""
    uses = {
        name: {each for each in _parts(kind) if isinstance(each, str) and each in named} for name, kind in named.items()
    }
    for name in named:
        reached: set[str] = set()
        waiting = list(uses[name])
        while waiting:
            each = waiting.pop()
            if each == name:
                return True
            if each not in reached:
                reached.add(each)
                waiting += uses[each]
    return False


def _has_items_without_bytes(schema: Any, named: Mapping[str, Any]) -> bool:
    return any(
        isinstance(each, dict) and each.get("type") == "array" and _takes_no_bytes(each["items"], named, frozenset())
        for each in _parts(schema)
    )


def _takes_no_bytes(schema: Any, named: Mapping[str, Any], within: frozenset[str]) -> bool:
    """Whether a value of the schema may take no bytes at all. A record within itself, which has no finite value unless
    a union or array stands between, does not count."""
    if isinstance(schema, list):
        return False  # a union begins with the number of its branch
    if isinstance(schema, str):
        if schema in named:
            return schema not in within and _takes_no_bytes(named[schema], named, within | {schema})
        return schema in _NO_BYTES
    kind = schema["type"]
    if kind in ("record", "error"):
        return all(_takes_no_bytes(each["type"], named, within) for each in schema["fields"])
    if kind == "fixed":
        return bool(schema["size"] == 0)
    if kind in ("array", "map", "enum"):
        return False
    return _takes_no_bytes(kind, named, within)
