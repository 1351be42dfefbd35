"""Key-value schemas: the definition holds the definitions of key and value, and the properties name the types of key
and value.

    i32 size | key's definition | i32 size | value's definition        big-endian; a size of -1 stands for an empty one

Properties: `key.schema.name`, `key.schema.type`, `key.schema.properties` (a JSON map), three properties
`value.schema.…` of the same kind, and `kv.encoding.type`. A key or value without a type is bytes. Sources:
KeyValueSchemaInfo, SchemaUtils; what a broker of 4.0.7 stored is in `tests/vectors/pulsar_records.json` (topic jkv).
"""

import json
from struct import Struct
from typing import Any

from magnetar.server.schema.schema_types import STRUCTURED, InvalidSchema, Schema, SchemaType, type_named

_SIZE = Struct(">i")


def split_key_value(schema: Schema) -> tuple[Schema, Schema]:
    """Returns the schemas of key and value. Raises InvalidSchema when the key-value schema is malformed."""
    data = schema.data
    halves: list[Schema] = []
    at = 0
    for name in ("key", "value"):
        if at + _SIZE.size > len(data):
            raise InvalidSchema(f"The {name}'s schema is missing in a key-value schema of {len(data)} bytes")
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        size = max(size, 0)
        if at + size > len(data):
            raise InvalidSchema(f"The {name}'s schema of {size} bytes reaches beyond its key-value schema")
        halves.append(_half(schema, name, data[at : at + size]))
        at += size
    return halves[0], halves[1]


def _half(schema: Schema, name: str, data: bytes) -> Schema:
    type_name = schema.properties.get(f"{name}.schema.type") or SchemaType.NONE.name
    text = schema.properties.get(f"{name}.schema.properties") or "{}"
    try:
        properties = json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"{name}.schema.properties is not JSON") from error
    if not isinstance(properties, dict):
        raise InvalidSchema(f"{name}.schema.properties is not a JSON object")
    return Schema(type_named(type_name), data, {key: str(value) for key, value in properties.items()})


def join_key_value(key: bytes, value: bytes) -> bytes:
    """Returns the definition of a key-value schema, from the definitions of key and value."""
    return b"".join((_SIZE.pack(len(key)), key, _SIZE.pack(len(value)), value))


def key_value_of_json(text: str) -> bytes:
    """Returns the definition of a key-value schema from the form that REST bodies have: `{"key": …, "value": …}`, each
    with a JSON definition or "". Raises InvalidSchema when the text does not have this form."""
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise InvalidSchema("Invalid schema definition data for KEY_VALUE schema: not JSON") from error
    if not isinstance(tree, dict) or "key" not in tree or "value" not in tree:
        raise InvalidSchema("Invalid schema definition data for KEY_VALUE schema: needs key and value")
    return join_key_value(*(_definition(tree[name]) for name in ("key", "value")))


def _definition(tree: Any) -> bytes:
    return b"" if tree == "" else json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()


def key_value_to_json(schema: Schema) -> str:
    """Returns the definition in the form that REST bodies have. A key or value without a JSON definition is shown as
    "". Raises InvalidSchema when the key-value schema is malformed."""
    tree: dict[str, Any] = {}
    for name, half in zip(("key", "value"), split_key_value(schema), strict=True):
        try:
            tree[name] = json.loads(half.data) if half.type in STRUCTURED and half.data else ""
        except ValueError as error:
            raise InvalidSchema(f"The {name}'s schema is not JSON") from error
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
