"""Schemas with their type, definition and properties, and the forms of a schema in commands and in stored records.

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
    """The types of schemas: Java's names with the numbers of the wire protocol. The numbers in stored records are
    greater by one, except that of EXTERNAL. Of the types that only clients use, only AUTO_CONSUME is listed, because
    consumers send AUTO_CONSUME to the broker."""

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

"""Types that have a definition; primitive types have no definition."""

_NAMES = {"BYTES": SchemaType.NONE, "KEYVALUE": SchemaType.KEY_VALUE} | {each.name: each for each in SchemaType}

STORED_EXTERNAL = 22
"""The number of EXTERNAL in stored records. EXTERNAL is the only type whose stored number is not the wire protocol's
number plus one."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. `data` is the definition: JSON text, a FileDescriptorSet within JSON, the definitions of key and value
    for a key-value schema, or nothing."""

    type: SchemaType
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    timestamp_ms: int = 0
    """When the schema was stored, in ms since the epoch."""
    deleted: bool = False
    """Whether this version is a tombstone, which deletes the schema: the topic then has no schema until another version
    is added."""

    @property
    def hash(self) -> bytes:
        """The SHA-256 of the definition."""
        return hashlib.sha256(self.data).digest()


@dataclass(frozen=True, slots=True)
class StoredSchema:
    version: int
    """The version's number. The versions of a schema id are numbered from 0."""
    schema: Schema


class SchemaFault(Exception):
    """The base class of the faults that a client's schema may have; the text is for the user."""


class InvalidSchema(SchemaFault):
    """Raised when a definition is not valid for its type (InvalidSchemaDataException)."""


class SchemaConflict(SchemaFault):
    """Raised when a schema may not follow the schemas that the topic has (IncompatibleSchemaException)."""


class KeyAndValue(Protocol):
    """The interface of a property, which commands and stored records have in common."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...


def type_named(name: str) -> SchemaType:
    """Returns the type of that name, which comes from a REST body in upper or lower case. Raises InvalidSchema for an
    unknown name."""
    found = _NAMES.get(name.upper())
    if found is None:
        raise InvalidSchema(f"Unknown schema type: {name}")
    return found


def schema_of_command(schema: pb.Schema, user: str = "") -> Schema:
    """Returns the schema that a client sent. `user` is the role of the client."""
    return Schema(SchemaType(schema.type), schema.schema_data, _mapping(schema.properties), user)


def schema_to_command(name: str, schema: Schema) -> pb.Schema:
    """Returns the schema in the form that commands carry. `name` is the schema's id: "tenant/namespace/topic"."""
    return pb.Schema(
        name=name,
        schema_data=schema.data,
        type=pb.Schema.Type.ValueType(schema.type.value),
        properties=[pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()],
    )


def schema_of_record(data: bytes) -> Schema:
    """Decodes a stored SchemaInfo. Raises DecodeError for malformed bytes, and ValueError for an unknown type or text
    that is not UTF-8."""
    info = records.SchemaInfo.FromString(data)
    check_text(info)
    number = SchemaType.EXTERNAL if info.type == STORED_EXTERNAL else max(info.type - 1, 0)
    return Schema(SchemaType(number), info.schema, _mapping(info.props), info.user, info.timestamp, info.deleted)


def schema_to_record(schema_id: str, schema: Schema) -> bytes:
    """Encodes a SchemaInfo and sets every field, because Java's broker sets every field."""
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
    """Returns the bytes of a schema version in messages and in answers to clients."""
    return version.to_bytes(8, "big", signed=True)


def _mapping(pairs: Iterable[KeyAndValue]) -> dict[str, str]:
    return {pair.key: pair.value for pair in pairs}
