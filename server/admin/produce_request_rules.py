"""Reads the body of a call that publishes messages, and makes metadata and bytes of each message. This module does no
I/O.

A fault of the body as a whole raises Refusal. A fault of one message is the outcome of that message only, and the other
messages are published.

Sources: ProducerMessages, ProducerMessage; TopicsBase.getSchemaData, buildMessage, 4.0.7. Three things differ from
Apache's broker: `deliverAt` needs no event time, `deliverAfterMs` counts from the time of publishing, and a message
carries the version of its schema.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin.avro_json_rules import ValueFault
from magnetar.server.admin.value_encoding_rules import CHARSET, Encoder, encoder_of
from magnetar.server.schema.key_value import join_key_value, split_key_value
from magnetar.server.schema.schema_types import InvalidSchema, Schema, SchemaType, type_named
from magnetar.server.web.calls import Refusal
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload

MESSAGES_MAX = 1_000
"""How many messages one call may have."""
NAME_CHARACTERS_MAX = 1_024
PRODUCER_NAME = "RestProducer"
"""The producer's name in messages of a call that names no producer (TopicsBase.defaultProducerName)."""
NEWEST_VERSION = -1
"""Stands for a missing `schemaVersion` in the body."""
LOCAL_ONLY = "__local__"
"""The value of `replicate_to` of a message that is not replicated (TopicsBase.buildMessage)."""
INLINE, SEPARATED = "INLINE", "SEPARATED"
"""How a message holds key and value: both in its body, or the key in its metadata (KeyValueEncodingType)."""
_NamedSchema = tuple[str, Schema]
DEFAULT_SCHEMA: _NamedSchema = ("String", Schema(SchemaType.STRING, b"", {CHARSET: "UTF-8"}))
_SIZE = Struct(">i")


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """The body of a call. Exactly one of `schema` and `schema_version` is set."""

    schema: Schema | None
    schema_version: int | None
    producer_name: str
    """The producer's name; empty if the body does not name the producer."""
    messages: list[Any]
    """The messages as JSON, not checked yet."""


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """One message, ready to be published. Times are milliseconds since 1970."""

    body: bytes
    key: str | None = None
    key_is_bytes: bool = False
    """Whether `key` is base64 text, which is so for a key with a schema."""
    properties: Mapping[str, str] = field(default_factory=dict)
    event_ms: int = 0
    sequence_id: int | None = None
    replicate_to: tuple[str, ...] = ()
    deliver_at_ms: int = 0
    deliver_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Encoders:
    """The encoders for the messages of one call."""

    value: Encoder
    key: Encoder | None = None
    """The encoder of keys; set for pairs of key and value."""
    is_inline: bool = False


def read_request(body: bytes) -> ProduceRequest:
    """Parses the body of a request. Raises Refusal for a body that makes no sense, and InvalidSchema for a schema whose
    type is unknown."""
    request = bodies.obj(bodies.present(bodies.parse(body)))
    messages = request.get("messages")
    if not isinstance(messages, list):
        raise Refusal(400, "messages must be a list of messages")
    if len(messages) > MESSAGES_MAX:
        raise Refusal(413, f"messages: {len(messages)} are too many, a call may have {MESSAGES_MAX}")
    name = request.get("producerName")
    name = "" if name is None else bodies.text(name, "producerName")
    if len(name) > NAME_CHARACTERS_MAX:
        raise Refusal(400, f"producerName: a name may have {NAME_CHARACTERS_MAX} characters")
    version = bodies.integer(request.get("schemaVersion", NEWEST_VERSION), bodies.LONG_MAX, "schemaVersion")
    if version < NEWEST_VERSION:
        raise Refusal(400, f"schemaVersion: there is no version {version}")
    if version != NEWEST_VERSION:
        return ProduceRequest(None, version, name, messages)
    value = _schema(request.get("valueSchema"), "valueSchema") or DEFAULT_SCHEMA
    key = _schema(request.get("keySchema"), "keySchema")
    schema = value[1] if key is None else _pair(key, value)
    return ProduceRequest(schema, None, name, messages)


def _schema(given: Any, what: str) -> _NamedSchema | None:
    """Reads a schema: an object `{name, type, schema, properties}`, or a text that holds such an object. The definition
    in `schema` is base64, as in Apache, or the JSON itself. Returns None when no schema is given. Raises Refusal for a
    value of another form, and InvalidSchema for an unknown type."""
    if given is None or given == "":
        return None
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise Refusal(400, f"{what} is not the JSON of a schema") from None
    info = bodies.obj(given, what)
    type_name = bodies.text(info.get("type"), f"type of {what}")
    properties = info.get("properties")
    schema = Schema(
        type_named(type_name),
        _definition(info.get("schema"), what),
        {} if properties is None else bodies.string_map(properties, f"properties of {what}"),
    )
    name = info.get("name")
    return type_name.upper() if name is None else bodies.text(name, f"name of {what}"), schema


def _definition(given: Any, what: str) -> bytes:
    if given is None:
        return b""
    if isinstance(given, dict | list):
        return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()
    text = bodies.text(given, f"schema of {what}")
    if text.lstrip()[:1] in ("{", "[", '"'):
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, f"schema of {what} is neither JSON nor base64") from None


def _pair(key: _NamedSchema, value: _NamedSchema) -> Schema:
    """Returns the schema of a pair whose key is in the metadata (KeyValueSchemaInfo.encodeKeyValueSchemaInfo)."""
    properties = {}
    for half, (name, schema) in (("key", key), ("value", value)):
        properties[f"{half}.schema.name"] = name
        properties[f"{half}.schema.type"] = "BYTES" if schema.type is SchemaType.NONE else schema.type.name
        properties[f"{half}.schema.properties"] = json.dumps(dict(schema.properties), separators=(",", ":"))
    properties["kv.encoding.type"] = SEPARATED
    return Schema(SchemaType.KEY_VALUE, join_key_value(key[1].data, value[1].data), properties)


def encoders_of(schema: Schema) -> Encoders:
    """Returns the encoders of a schema. Raises InvalidSchema for a schema whose messages cannot be written as text."""
    if schema.type is not SchemaType.KEY_VALUE:
        return Encoders(encoder_of(schema))
    key, value = split_key_value(schema)
    if SchemaType.KEY_VALUE in (key.type, value.type):
        raise InvalidSchema("Messages of pairs within pairs cannot be written as text")
    # A schema that does not say how its messages hold their keys means INLINE (KeyValueSchemaInfo).
    is_inline = schema.properties.get("kv.encoding.type", INLINE) != SEPARATED
    return Encoders(encoder_of(value), encoder_of(key), is_inline)


def encode_message(given: Any, encoders: Encoders) -> EncodedMessage | str:
    """Returns the encoded message, or a text that names the fault of the message."""
    try:
        return _encoded(bodies.obj(given, "a message"), encoders)
    except Refusal as fault:
        return fault.reason
    except (ValueFault, RecursionError) as fault:
        return str(fault)


def _encoded(given: dict[str, Any], encoders: Encoders) -> EncodedMessage:
    if given.get("payload") is None:
        raise ValueFault("payload is missing")
    body = encoders.value(bodies.text(given["payload"], "payload"))
    key_text = given.get("key")
    key = None if key_text is None else bodies.text(key_text, "key")
    if encoders.key is not None:
        data = None if key is None else _key(encoders.key, key)
        if encoders.is_inline:
            key, body = None, _inline(data, body)
        else:
            key = None if data is None else base64.b64encode(data).decode()
    clusters = given.get("replicationClusters")
    replicate_to = () if clusters is None else tuple(bodies.strings(clusters, "replicationClusters"))
    if bodies.boolean(given.get("disableReplication"), "disableReplication"):
        replicate_to = (LOCAL_ONLY,)
    properties = given.get("properties")
    sequence_id = given.get("sequenceId")
    return EncodedMessage(
        body,
        key,
        encoders.key is not None,
        {} if properties is None else bodies.string_map(properties, "properties"),
        _natural(given.get("eventTime") or None, "eventTime"),
        None if sequence_id is None else _natural(sequence_id, "sequenceId"),
        replicate_to,
        _natural(given.get("deliverAt"), "deliverAt"),
        _natural(given.get("deliverAfterMs"), "deliverAfterMs"),
    )


def _key(encoder: Encoder, text: str) -> bytes:
    try:
        return encoder(text)
    except ValueFault as fault:
        raise ValueFault(f"key: {fault}") from None


def _inline(key: bytes | None, value: bytes) -> bytes:
    """Returns the body of a message whose value is a pair of a key and a value: the size and the bytes of the key, then
    the size and the bytes of the value. A key of None has the size -1 (KeyValue.encode)."""
    head = _SIZE.pack(-1) if key is None else _SIZE.pack(len(key)) + key
    return head + _SIZE.pack(len(value)) + value


def _natural(value: Any, what: str) -> int:
    number = bodies.integer(value, bodies.LONG_MAX, what)
    if number < 0:
        raise Refusal(400, f"{what} must be 0 or more, not {number}")
    return number


def payload_of(
    message: EncodedMessage, *, producer_name: str, sequence_id: int, schema_version: bytes, published_ms: int
) -> bytes:
    """Returns the message as a client's SEND carries it, published at `published_ms`."""
    metadata = pb.MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_id,
        publish_time=published_ms,
        compression=pb.NONE,
        uncompressed_size=len(message.body),
        properties=[pb.KeyValue(key=key, value=value) for key, value in message.properties.items()],
        replicate_to=message.replicate_to,
    )
    if schema_version:
        metadata.schema_version = schema_version
    if message.key is not None:
        metadata.partition_key = message.key
        metadata.partition_key_b64_encoded = message.key_is_bytes
    if message.event_ms:
        metadata.event_time = message.event_ms
    if message.deliver_at_ms:
        metadata.deliver_at_time = message.deliver_at_ms
    elif message.deliver_after_ms:
        metadata.deliver_at_time = min(published_ms + message.deliver_after_ms, bodies.LONG_MAX)
    return build_payload(metadata, message.body)
