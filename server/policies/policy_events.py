"""An event of `__change_events` and its bytes: Avro within a message whose key is the topic. Pure.

The Avro library is imported by whoever needs it: loading it takes a good part of a server's start.

The key of policies for all clusters begins with `__G__`. A message without a value deletes what its key had.

Sources: TopicPoliciesSystemTopicClient, SystemTopicBasedTopicPoliciesService.getPoliciesEvent; facts 7 and 14.
"""

import io
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from magnetar.server.policies.event_schema import NEVER_NULL
from pulsar_proto.errors import MalformedFrame, MalformedRecord
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, build_payload, parse_metadata

FAULT_CHARACTERS = 300
"""Of the library's reason, which may repeat the whole schema."""

EVENT_BYTES_MAX = 256 << 10
"""Of an event before compression. Those of brokers have a few hundred."""

GLOBAL_PREFIX = "__G__"

Policies = dict[str, Any]
Schema = Any
"""As `fastavro.parse_schema` makes it."""


class Event(NamedTuple):
    key: str
    policies: Policies | None
    """None: deleted, or an event about something else."""


def key_of(topic: TopicName, *, is_global: bool) -> str:
    return f"{GLOBAL_PREFIX if is_global else ''}{topic.full}"


def encode(
    topic: TopicName,
    policies: Mapping[str, Any] | None,
    schema: Schema,
    schema_version: int,
    *,
    is_global: bool,
    cluster: str,
    producer_name: str,
    sequence_id: int,
    now_ms: int,
) -> bytes:
    """The message's payload. Raises ValueError for policies that the schema has no place for."""
    metadata = pb.MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_id,
        publish_time=now_ms,
        partition_key=key_of(topic, is_global=is_global),
        partition_key_b64_encoded=False,
        schema_version=schema_version.to_bytes(8, "big"),
    )
    if not is_global:
        metadata.replicate_to.append(cluster)
    if policies is None:
        metadata.null_value = True
        return build_payload(metadata, b"")
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
    metadata.uncompressed_size = encoded.tell()
    return build_payload(metadata, encoded.getvalue())


def version_of(payload: bytes) -> int:
    """Of the schema that a message was written with. Raises MalformedFrame."""
    return int.from_bytes(parse_metadata(payload).schema_version, "big")


def decode(payload: bytes, schema: Schema) -> Event | None:
    """None for a message that is no event about a topic's policies. Raises MalformedRecord."""
    import fastavro

    try:
        metadata = parse_metadata(payload)
        key = metadata.partition_key
        if not metadata.HasField("partition_key") or metadata.HasField("num_messages_in_batch"):
            return None
        if isinstance(key, bytes):
            return None  # not UTF-8: no topic has that name
        if metadata.null_value:
            return Event(key, None)
        plain = decompress(metadata.compression, body(payload), metadata.uncompressed_size, EVENT_BYTES_MAX)
        value: Any = fastavro.schemaless_reader(io.BytesIO(plain), schema, None)
    except (MalformedFrame, ValueError, EOFError, IndexError, KeyError, TypeError) as error:
        raise MalformedRecord(f"no event about a topic's policies: {error}") from error
    if value.get("eventType") != "TOPIC_POLICY" or value.get("topicPoliciesEvent") is None:
        return None
    if value.get("actionType") == "DELETE":
        return Event(key, None)
    policies = value["topicPoliciesEvent"].get("policies") or {}
    return Event(key, {key: each for key, each in policies.items() if each is not None})
