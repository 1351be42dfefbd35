"""Decides whether a schema's definition is valid for its type. Sources: SchemaDataValidator and the validators that it
calls, 4.0.7."""

import json
from functools import lru_cache

from magnetar.server.schema.avro_schema import AvroKind, AvroParseError, AvroSchema, parse_avro
from magnetar.server.schema.key_value import split_key_value
from magnetar.server.schema.protobuf_native import root_message_name
from magnetar.server.schema.schema_types import AVRO_BASED, InvalidSchema, Schema, SchemaType

DATA_BYTES_MAX = 1 << 20
"""The largest definition, in bytes. The limit exists because a definition is stored as one entry of a ledger and is
parsed by this module. Apache's broker has no limit besides the size of a frame."""

PARSED_BYTES_MAX = 8 << 10
"""Definitions up to this size, in bytes, are cached in parsed form."""

PY_NONE = b"null"
"""The definition that old Python clients send for a schema of type STRING."""


def validate(schema: Schema) -> None:
    """Checks a schema's definition. Raises InvalidSchema when the definition is not valid for the schema's type."""
    if len(schema.data) > DATA_BYTES_MAX:
        raise InvalidSchema(f"Schema definition of {len(schema.data)} bytes, at most {DATA_BYTES_MAX} are allowed")
    if sum(len(key) + len(value) for key, value in schema.properties.items()) > DATA_BYTES_MAX:
        raise InvalidSchema(f"Schema properties of more than {DATA_BYTES_MAX} characters")
    match schema.type:
        case _ if schema.type in AVRO_BASED:
            _validate_avro_based(schema)
        case SchemaType.PROTOBUF_NATIVE:
            root_message_name(schema.data)
        case SchemaType.KEY_VALUE:
            for half in split_key_value(schema):
                validate(half)
        case SchemaType.STRING:
            if schema.data not in (b"", PY_NONE):
                text = schema.data.decode(errors="replace")
                raise InvalidSchema(f"Invalid schema definition data for string schema : '{text}'")
        case SchemaType.NONE | SchemaType.EXTERNAL:
            pass
        case SchemaType.AUTO_CONSUME:
            raise InvalidSchema(f"Schema {schema.type.name} is a client-side schema type")
        case _ if schema.data:
            raise InvalidSchema(
                "Invalid schema definition data for primitive schemas :length of schema data should be zero, but "
                f"{len(schema.data)} bytes is found"
            )


def _validate_avro_based(schema: Schema) -> None:
    avro = avro_of(schema)
    if avro is None:
        if schema.type is SchemaType.JSON and is_json_schema(schema):
            return
        raise InvalidSchema(f"Invalid schema definition data for {schema.type.name} schema")
    if schema.type is SchemaType.AVRO and avro.kind is AvroKind.UNION:
        raise InvalidSchema("Avro schema typed [UNION] is not supported")


def avro_of(schema: Schema) -> AvroSchema | None:
    """Returns the definition as an Avro schema, or None when the definition is no Avro schema."""
    data = schema.data
    return _parsed(data) if len(data) <= PARSED_BYTES_MAX else _parse(data)


def _parse(data: bytes) -> AvroSchema | None:
    try:
        return parse_avro(data)
    except AvroParseError:
        return None


_parsed = lru_cache(maxsize=512)(_parse)
"""Parses a definition and caches the result, because all versions of a topic are compared whenever a new version comes.
The returned trees must not be changed."""


def is_json_schema(schema: Schema) -> bool:
    """Whether the definition can be a JSON schema, which clients before 2.1 sent for the type JSON: an object that
    names a type (Jackson's JsonSchema)."""
    try:
        tree = json.loads(schema.data)
    except ValueError:
        return False
    return isinstance(tree, dict) and isinstance(tree.get("type"), str)


def json_schema_id(schema: Schema) -> str | None:
    """Returns the id that a JSON schema names, or None when the schema names no id."""
    tree = json.loads(schema.data)
    found = tree.get("id") if isinstance(tree, dict) else None
    return found if isinstance(found, str) else None
