"""Values by their schema: bytes to what JSON shows, and a line of text to bytes. This module does no I/O.

    STRING                      the text itself
    JSON                        JSON
    AVRO                        JSON: unions as their plain values, bytes and fixed as texts whose characters stand
                                for one byte each, logical types as the numbers or texts that they are stored as
    INT8, INT16, INT32, INT64   a whole number, big-endian in the message (only read, as the next)
    FLOAT, DOUBLE, BOOLEAN      a number; true or false
    all others                  bytes, unchanged

Sources: the Avro specification 1.11; the classes IntSchema, DoubleSchema and their like of Pulsar's client.
"""

import io
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import fastavro

Decoder = Callable[[bytes], Any]
"""Returns what JSON shows of a value. Raises ValueError for bytes that are no value of the schema."""
Encoder = Callable[[bytes], bytes]
"""Returns the bytes of a message from a line of text. Raises ValueError with a sentence."""

NUMBERS = {
    "BOOLEAN": ">?",
    "INT8": ">b",
    "INT16": ">h",
    "INT32": ">i",
    "INT64": ">q",
    "FLOAT": ">f",
    "DOUBLE": ">d",
}
JSON_KINDS = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "dict": "an object",
    "list": "a list",
    "NoneType": "null",
}
"""What the classes that `json` makes are called in JSON."""
MISFIT = re.compile(r"\(type <class '(\w+)'>\) do not match")
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
WRITTEN_TYPES = ("BYTES", "STRING", "JSON", "AVRO")
"""The types of schema that `produce` can write. Of the other types, the official client announces only those of
protobuf to the broker."""
DEFINED_TYPES = ("JSON", "AVRO")
"""Of those, the types that have a definition."""
TEXT_TYPES = ("JSON", "STRING")
"""The types whose bytes are what people read."""


def parse_definition(text: str) -> tuple[str, dict[str, Any]]:
    """Reads a schema file: an Avro schema, or what pulsar-admin uploads, `{"type": "JSON", "schema": "…"}`. Returns the
    type of schema that the file names, or "", and the Avro schema. Raises ValueError with a sentence."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the schema is not JSON: {error}") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("type"), str):
        raise ValueError('the schema is no JSON object with a "type"')
    if "schema" not in tree:
        check_avro(tree)
        return "", tree
    kind = tree["type"].upper()
    if kind not in WRITTEN_TYPES:
        raise ValueError(f"values of the type {kind} cannot be written; these can: {', '.join(WRITTEN_TYPES)}")
    if kind not in DEFINED_TYPES:
        return kind, {}
    return kind, parse_definition(tree["schema"] if isinstance(tree["schema"], str) else json.dumps(tree["schema"]))[1]


def check_avro(definition: Any) -> None:
    """Raises ValueError when the definition is no Avro schema."""
    try:
        fastavro.parse_schema(definition)
    except Exception as error:  # fastavro raises KeyError, TypeError and errors of its own for what is no schema.
        raise ValueError(f"this is no Avro schema: {type(error).__name__}: {error}") from None


def decoder_of(kind: str, definition: str) -> Decoder | None:
    """Returns the decoder for a type of schema by its name and definition, or None when such values are shown as
    bytes. Raises ValueError when the definition cannot be used."""
    if kind in NUMBERS:
        return lambda data: _number(NUMBERS[kind], kind, data)
    if kind == "STRING":
        return bytes.decode
    if kind == "JSON":
        return _json_value
    if kind == "AVRO":
        return _avro_decoder(definition)
    return None


def encoder_of(kind: str, definition: Mapping[str, Any]) -> Encoder:
    """Returns the encoder for one of WRITTEN_TYPES. Raises ValueError when the definition cannot be used."""
    if kind == "STRING":
        return _text
    if kind == "JSON":
        # Java's JSONSchema stands on an Avro schema, which is not complete for JSON: the value only has to be JSON.
        return _json
    if kind == "AVRO":
        return _avro_encoder(definition)
    return bytes


def _number(form: str, kind: str, data: bytes) -> Any:
    if len(data) != struct.calcsize(form):
        raise ValueError(f"{len(data)} bytes are no {kind}")
    return _for_json(struct.unpack(form, data)[0])


def _text(line: bytes) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    return line


def _json(line: bytes) -> bytes:
    _json_value(line)
    return line


def _json_value(line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=_refuse_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _refuse_number(text: str) -> Any:
    raise ValueError(f"{text} is no number that JSON can hold")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _avro_decoder(definition: str) -> Decoder:
    schema = _parsed(_json_value(definition.encode()))

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, schema, None)
        except Exception as error:  # fastavro raises EOFError, IndexError, struct.error and more for foreign bytes.
            raise ValueError(f"this is no value of the Avro schema: {type(error).__name__}") from None
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow the value of the Avro schema")
        return _for_json(value)

    return decode


def _avro_encoder(definition: Mapping[str, Any]) -> Encoder:
    schema = _parsed(definition)
    named: dict[str, Any] = {}
    _collect(schema, named)

    def encode(line: bytes) -> bytes:
        value = _for_avro(schema, _json_value(line), named)
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, schema, value, strict_allow_default=True)
        except Exception as error:  # As above: whatever fastavro raises here is about the value.
            raise ValueError(f"it does not fit the Avro schema: {_misfit(error)}") from None
        return out.getvalue()

    return encode


def _misfit(error: Exception) -> str:
    """Returns the text of fastavro's error. The text names the classes of Python that the kinds of JSON are here."""
    text = MISFIT.sub(lambda found: f"({JSON_KINDS.get(found[1], found[1])}) is none of", str(error))
    return text or type(error).__name__


def _parsed(definition: Any) -> Any:
    """Returns the schema without logical types, so that a value is what it is stored as."""
    check_avro(definition)
    return fastavro.parse_schema(_without_logical(definition))


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


def _collect(schema: Any, named: dict[str, Any]) -> None:
    """Enters the named types of a parsed schema, whose names are full, into `named`."""
    if isinstance(schema, list):
        for each in schema:
            _collect(each, named)
    elif isinstance(schema, dict):
        if "name" in schema and schema["type"] in ("record", "error", "enum", "fixed"):
            named[schema["name"]] = schema
        for member in ("type", "items", "values"):
            if isinstance(schema.get(member), dict | list):
                _collect(schema[member], named)
        for each in schema.get("fields", ()):
            _collect(each["type"], named)


def _for_avro(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:
    """Returns a JSON value as fastavro takes it: texts become bytes where the schema has bytes, and the names of
    special numbers become numbers."""
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, list):
        return _for_union(schema, value, named)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _for_avro(kind, value, named)
    if isinstance(value, str):
        if kind in ("bytes", "fixed"):
            return _one_byte_each(value)
        return SPECIAL.get(value, value) if kind in ("float", "double") else value
    if isinstance(value, list) and kind == "array":
        return [_for_avro(schema["items"], each, named) for each in value]
    if isinstance(value, dict) and kind == "map":
        return {name: _for_avro(schema["values"], each, named) for name, each in value.items()}
    if isinstance(value, dict) and kind in ("record", "error"):
        types = {each["name"]: each["type"] for each in schema["fields"]}
        return {name: _for_avro(types.get(name, "null"), each, named) for name, each in value.items()}
    return value


def _for_union(branches: list[Any], value: Any, named: Mapping[str, Any]) -> Any:
    """Converts a value by the first branch that takes it; fastavro itself then chooses by the converted value."""
    for branch in branches:
        try:
            converted = _for_avro(branch, value, named)
        except ValueError:
            continue
        if fastavro.validate(converted, _with_types(branch, named), raise_errors=False):
            return converted
    return value


def _with_types(branch: Any, named: Mapping[str, Any]) -> Any:
    return named.get(branch, branch) if isinstance(branch, str) else branch


def _one_byte_each(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a text for bytes has characters that stand for no byte (above U+00FF)") from None


def _for_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list):
        return [_for_json(each) for each in value]
    if isinstance(value, dict):
        return {name: _for_json(each) for name, each in value.items()}
    return value
