"""A schema, with its type, definition and properties, and its form in commands and stored records.

Sources: SchemaType, SchemaData, SchemaInfo; the message Schema of PulsarApi.proto; SchemaStorageFormat.proto.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from pulsar_proto.pb import managed_ledger_pb2 as records
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.text import check_text


class SchemaType(IntEnum):
    """Java's names with the numbers of the wire; the stored numbers are greater by one. Of the types that only clients
    use, AUTO_CONSUME alone is listed, because consumers announce it."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22


AVRO_BASED = frozenset((SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF))
"""Types whose definitions are Avro schemas (SchemaRegistryServiceImpl.isUsingAvroSchemaParser)."""

STRUCTURED = AVRO_BASED | {SchemaType.KEY_VALUE, SchemaType.PROTOBUF_NATIVE, SchemaType.EXTERNAL}

"""Types that have a definition; primitive types have none."""

_NAMES = {"BYTES": SchemaType.NONE, "KEYVALUE": SchemaType.KEY_VALUE} | {each.name: each for each in SchemaType}

STORED_EXTERNAL = 22
"""The stored number of EXTERNAL, the only one that is not the wire's plus one."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. `data` is the definition: JSON text, a FileDescriptorSet within JSON, both halves of a key-value, or
    nothing."""

    type: SchemaType
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    timestamp_ms: int = 0
    """When the schema was stored."""
    deleted: bool = False
    """Whether this version is a tombstone: from here on the topic has no schema, until another version follows."""

    @property
    def hash(self) -> bytes:
        """The SHA-256 of the definition."""
        return hashlib.sha256(self.data).digest()


@dataclass(frozen=True, slots=True)
class StoredSchema:
    version: int
    """The versions of a schema id count from 0."""
    schema: Schema


class SchemaFault(Exception):
    """The base class of the faults that a client's schema may have; the text is for the user."""


class InvalidSchema(SchemaFault):
    """The definition is not valid for its type (InvalidSchemaDataException)."""


class SchemaConflict(SchemaFault):
    """The schema cannot follow those that the topic has (IncompatibleSchemaException)."""


class KeyAndValue(Protocol):
    """A property, as commands and as records have it."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...


def type_named(name: str) -> SchemaType:
    """Returns the type by the name that it has in REST bodies, in upper or lower case. Raises InvalidSchema."""
    found = _NAMES.get(name.upper())
    if found is None:
        raise InvalidSchema(f"Unknown schema type: {name}")
    return found


def schema_of_command(schema: pb.Schema, user: str = "") -> Schema:
    """Returns the schema that a client sent. `user` is the role of the client."""
    return Schema(SchemaType(schema.type), schema.schema_data, _mapping(schema.properties), user)


def schema_to_command(name: str, schema: Schema) -> pb.Schema:
    """Returns the schema as commands carry it. `name` is the schema's id: "tenant/namespace/topic"."""
    return pb.Schema(
        name=name,
        schema_data=schema.data,
        type=pb.Schema.Type.ValueType(schema.type.value),
        properties=[pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()],
    )


def schema_of_record(data: bytes) -> Schema:
    """Decodes a stored SchemaInfo. Raises DecodeError, and ValueError for an unknown type or text that is not UTF-8."""
    info = records.SchemaInfo.FromString(data)
    check_text(info)
    number = SchemaType.EXTERNAL if info.type == STORED_EXTERNAL else max(info.type - 1, 0)
    return Schema(SchemaType(number), info.schema, _mapping(info.props), info.user, info.timestamp, info.deleted)


def schema_to_record(schema_id: str, schema: Schema) -> bytes:
    """Encodes a SchemaInfo, with every field set, as Java sets them."""
    number = STORED_EXTERNAL if schema.type is SchemaType.EXTERNAL else schema.type.value + 1
    return records.SchemaInfo(
        schema_id=schema_id,
        user=schema.user,
        type=records.SchemaInfo.SchemaType.ValueType(number),
        schema=schema.data,
        timestamp=schema.timestamp_ms,
        deleted=schema.deleted,
        props=[records.KeyValue(key=key, value=value) for key, value in schema.properties.items()],
    ).SerializeToString()


def version_bytes(version: int) -> bytes:
    """Returns the version as messages and answers carry it."""
    return version.to_bytes(8, "big", signed=True)


def _mapping(pairs: Iterable[KeyAndValue]) -> dict[str, str]:
    return {pair.key: pair.value for pair in pairs}
