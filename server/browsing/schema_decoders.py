"""Decodes values by the schema version that their message names.

An inline key-value body is `i32 size | key | i32 size | value`, big-endian, with a size of -1 for null; a separated one
is the value alone, and the message's key is the key. Source: KeyValue, KeyValueEncodingType of Pulsar's client.
"""

import base64
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from magnetar.server.browsing.entry_messages import StoredMessage
from magnetar.server.schema.key_value import split_key_value
from magnetar.server.schema.protobuf_native import message_class
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_types import Schema, SchemaFault, SchemaType
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.text import raw
from pulsar_proto.values.avro_decoding import Decoder, json_value
from pulsar_proto.values.value_decoding import decoder_of

VERSION_BYTES = 8
DEFINITION_BYTES_MAX = 256 << 10
"""The largest definition that values are decoded by; parsing a larger one would keep messages waiting."""

_SIZE = Struct(">i")
Value = tuple[str, Any]
"""The kind of a shown value (json, text, bytes or none), and its content."""


class Reading(NamedTuple):
    """How the values of one schema version are read."""

    version: int | None
    type_name: str | None
    decode: Callable[[StoredMessage], Value] | None
    """Raises ValueError for bytes that are no value of the schema."""
    fault: str = ""
    """Why there is no decoder."""


class SchemaDecoders:
    """The decoders of one topic's schema versions. Each version is looked up and parsed once."""

    def __init__(self, registry: SchemaRegistry, schema_id: str) -> None:
        self._registry = registry
        self._schema_id = schema_id
        self._readings: dict[bytes, Reading] = {b"": Reading(None, None, None)}

    async def reading(self, metadata: pb.MessageMetadata) -> Reading:
        """Returns how the values of a message with this metadata are read. Raises SchemaStorageFault."""
        version = metadata.schema_version
        if version not in self._readings:
            self._readings[version] = await self._look_up(version)
        return self._readings[version]

    async def _look_up(self, version: bytes) -> Reading:
        if len(version) != VERSION_BYTES:
            return Reading(None, None, None, f"The schema version {version.hex()} is no version of this registry")
        number = int.from_bytes(version, "big", signed=True)
        stored = await self._registry.version(self._schema_id, number)
        if stored is None:
            return Reading(number, None, None, f"The topic has no schema version {number} any more")
        schema = stored.schema
        if len(schema.data) > DEFINITION_BYTES_MAX:
            return Reading(
                number, schema.type.name, None, f"The schema of {len(schema.data)} bytes is too large to decode by"
            )
        try:
            return Reading(number, schema.type.name, _decoder(schema))
        except (ValueError, SchemaFault) as error:
            return Reading(number, schema.type.name, None, f"The schema version {number} cannot be used: {error}")


def guessed(body: bytes) -> Value:
    """Shows a value without a schema: as JSON if it is an object or array, as text if it is text, else as bytes."""
    if body[:1] in (b"{", b"["):
        try:
            return "json", json_value(body)
        except ValueError:
            pass
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return as_bytes(body)
    return ("text", text) if all(each.isprintable() or each in "\r\n\t" for each in text) else as_bytes(body)


def as_bytes(body: bytes) -> Value:
    return "bytes", base64.b64encode(body).decode()


def _decoder(schema: Schema) -> Callable[[StoredMessage], Value] | None:
    """Returns the decoder of a schema, or None for bytes. Raises ValueError or SchemaFault when the definition cannot
    be used."""
    if schema.type is SchemaType.KEY_VALUE:
        return _key_value_decoder(schema)
    decode = _value_decoder(schema)
    if decode is None:
        return None
    kind = "text" if schema.type is SchemaType.STRING else "json"
    return lambda message: (kind, decode(message.body))


def _value_decoder(schema: Schema) -> Decoder | None:
    if schema.type is not SchemaType.PROTOBUF_NATIVE:
        return decoder_of(schema.type.name, schema.data.decode())
    parse = message_class(schema.data).FromString

    def decode(data: bytes) -> Any:
        try:
            return MessageToDict(parse(data), preserving_proto_field_name=True)
        except (DecodeError, TypeError, RecursionError) as error:
            raise ValueError(f"this is no message of the schema: {error}") from None

    return decode


def _key_value_decoder(schema: Schema) -> Callable[[StoredMessage], Value]:
    key_decoder, value_decoder = map(_value_decoder, split_key_value(schema))
    is_separated = schema.properties.get("kv.encoding.type", "").upper() == "SEPARATED"

    def decode(message: StoredMessage) -> Value:
        key, value = (_separated_key(message), message.body) if is_separated else _split(message.body)
        return "json", {"key": _half(key_decoder, key), "value": _half(value_decoder, value)}

    return decode


def _half(decode: Decoder | None, data: bytes | None) -> Any:
    if data is None:
        return None
    return guessed(data)[1] if decode is None else decode(data)


def _separated_key(message: StoredMessage) -> bytes | None:
    own = message.own
    if not own.HasField("partition_key"):
        return None
    key = raw(own.partition_key)
    return base64.b64decode(key, validate=True) if own.partition_key_b64_encoded else key


def _split(body: bytes) -> tuple[bytes | None, bytes | None]:
    halves: list[bytes | None] = []
    at = 0
    for name in ("key", "value"):
        if at + _SIZE.size > len(body):
            raise ValueError(f"the {name} is missing in a key-value message of {len(body)} bytes")
        (size,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size
        if size > len(body) - at:
            raise ValueError(f"the {name} of {size} bytes reaches beyond the key-value message")
        halves.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    return halves[0], halves[1]
