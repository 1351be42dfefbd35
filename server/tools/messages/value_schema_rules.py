"""Values by their schema: a line of text to the bytes of a message, the way back of `pulsar_proto/values`. This module
does no I/O.

    STRING    the text itself
    JSON      JSON
    AVRO      JSON, as `pulsar_proto/values` shows it
    BYTES     the bytes of the line

Source: the Avro specification 1.11.
"""

import io
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import fastavro

from pulsar_proto.values.avro_decoding import check_avro, collect_names, json_value, parsed

Encoder = Callable[[bytes], bytes]
"""Returns the bytes of a message from a line of text. Raises ValueError with a sentence."""

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


def _text(line: bytes) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    return line


def _json(line: bytes) -> bytes:
    json_value(line)
    return line


def _avro_encoder(definition: Mapping[str, Any]) -> Encoder:
    schema = parsed(definition)
    named: dict[str, Any] = {}
    collect_names(schema, named)

    def encode(line: bytes) -> bytes:
        value = _for_avro(schema, json_value(line), named)
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
