"""Encodes and decodes the events of `__change_events`: a PulsarEvent in Avro, within a message whose key names the
topic. Does no I/O.

A topic can have two sets of policies, one for this cluster and one for all clusters; the key of the policies for all
clusters begins with `__G__`. A message with a null value deletes the policies of its key.

fastavro is imported inside the functions that use it, because importing fastavro takes a good part of the time that a
server needs to start.

Sources: TopicPoliciesSystemTopicClient, SystemTopicBasedTopicPoliciesService.getPoliciesEvent; the bytes that a broker
of 4.0.7 wrote are in `tests/vectors`.
"""

import io
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from magnetar.server.policies.event_schema import NEVER_NULL
from pulsar_proto.errors import InvalidTopicName, MalformedFrame, MalformedRecord
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, build_payload, parse_metadata

FAULT_CHARACTERS = 300
"""How many characters of fastavro's error message an error text repeats. The message may hold the whole schema."""

EVENT_BYTES_MAX = 256 << 10
"""The largest event that is decoded, in uncompressed bytes. The events that brokers write have a few hundred bytes."""

GLOBAL_PREFIX = "__G__"

AvroType = Any
"""A schema as `fastavro.parse_schema` returns it."""


class PolicyEvent(NamedTuple):
    key: str
    """The key of the topic whose policies the event sets; see `key_of`."""
    policies: dict[str, Any] | None
    """The topic's policies; None when the event deletes them."""


def key_of(topic: TopicName, *, is_global: bool) -> str:
    """Returns the key of the events that hold the topic's policies for all clusters if `is_global`, otherwise for this
    cluster."""
    return f"{GLOBAL_PREFIX if is_global else ''}{topic.full}"


def topic_of_key(key: str) -> TopicName | None:
    """Returns the topic that an event's key names, or None when the key is no topic's name."""
    try:
        return TopicName.parse(key.removeprefix(GLOBAL_PREFIX))
    except InvalidTopicName:
        return None


def encode(
    topic: TopicName,
    policies: Mapping[str, Any] | None,
    schema: AvroType,
    schema_version: int,
    *,
    is_global: bool,
    cluster: str,
    producer_name: str,
    sequence_id: int,
    now_ms: int,
) -> bytes:
    """Returns the payload of the message that sets the topic's policies, or that deletes them when `policies` is None.
    Raises ValueError for policies that do not fit the schema."""
    metadata = pb.MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_id,
        publish_time=now_ms,
        partition_key=key_of(topic, is_global=is_global),
        partition_key_b64_encoded=False,
        schema_version=schema_version.to_bytes(8, "big"),
        replicate_to=replicated_to(cluster, is_global=is_global),
    )
    if policies is None:
        metadata.null_value = True
        return build_payload(metadata, b"")
    value = encode_value(topic, policies, schema, is_global=is_global, cluster=cluster)
    metadata.uncompressed_size = len(value)
    return build_payload(metadata, value)


def replicated_to(cluster: str, *, is_global: bool) -> tuple[str, ...]:
    """Returns the clusters to which an event is replicated: only `cluster`, or all clusters (an empty tuple) if
    `is_global`."""
    return () if is_global else (cluster,)


def encode_value(
    topic: TopicName, policies: Mapping[str, Any], schema: AvroType, *, is_global: bool, cluster: str
) -> bytes:
    """Returns the content of the message that sets the topic's policies. Raises ValueError for policies that do not fit
    the schema."""
    filled = {**deepcopy(dict(NEVER_NULL)), **policies, "isGlobal": is_global}
    value = {
        "actionType": "UPDATE",
        "eventType": "TOPIC_POLICY",
        "replicateTo": None if is_global else [cluster],
        "topicPoliciesEvent": {
            "domain": topic.domain,
            "namespace": topic.namespace_name,
            "policies": filled,
            "tenant": topic.tenant,
            "topic": topic.local_name,
        },
    }
    import fastavro

    encoded = io.BytesIO()
    try:
        fastavro.schemaless_writer(encoded, schema, value)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"these policies of {topic.full} cannot be stored: {str(error)[:FAULT_CHARACTERS]}") from error
    return encoded.getvalue()


def version_of(payload: bytes) -> int:
    """Returns the version of the schema that a message was written with. Raises MalformedFrame when the message cannot
    be parsed."""
    return int.from_bytes(parse_metadata(payload).schema_version, "big")


def decode(payload: bytes, schema: AvroType) -> PolicyEvent | None:
    """Decodes a message and returns the event. Returns None for a message that does not concern a topic's policies.
    Raises MalformedRecord when the message cannot be decoded."""
    try:
        metadata = parse_metadata(payload)
        key = metadata.partition_key
        if not metadata.HasField("partition_key") or metadata.HasField("num_messages_in_batch"):
            return None
        if isinstance(key, bytes):
            return None  # the key is not UTF-8, so the key names no topic
        if metadata.null_value:
            return PolicyEvent(key, None)
        plain = decompress(metadata.compression, body(payload), metadata.uncompressed_size, EVENT_BYTES_MAX)
    except MalformedFrame as error:
        raise MalformedRecord(f"no event about a topic's policies: {error}") from error
    return decode_value(key, plain, schema)


def decode_value(key: str, plain: bytes, schema: AvroType) -> PolicyEvent | None:
    """Decodes the content of a message with this key, and returns the event. Returns None for a content that does not
    concern a topic's policies. Raises MalformedRecord when the content cannot be decoded."""
    import fastavro

    if len(plain) > EVENT_BYTES_MAX:
        raise MalformedRecord(f"an event of {len(plain)} bytes, at most {EVENT_BYTES_MAX} are decoded")
    try:
        value: Any = fastavro.schemaless_reader(io.BytesIO(plain), schema, None)
    except (ValueError, EOFError, IndexError, KeyError, TypeError) as error:
        raise MalformedRecord(f"no event about a topic's policies: {error}") from error
    if value.get("eventType") != "TOPIC_POLICY" or value.get("topicPoliciesEvent") is None:
        return None
    if value.get("actionType") == "DELETE":
        return PolicyEvent(key, None)
    policies = value["topicPoliciesEvent"].get("policies") or {}
    return PolicyEvent(key, {key: each for key, each in policies.items() if each is not None})
