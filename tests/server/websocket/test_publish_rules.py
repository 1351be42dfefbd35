"""Payloads that messages in JSON become: each member of a message reaches its metadata."""

import json
from typing import Any

import pytest

from magnetar.server.websocket.json_message_rules import parse_producer_message
from magnetar.server.websocket.producer_options_rules import ProducerOptions
from magnetar.server.websocket.publish_rules import single_payload
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import body, parse_metadata, verify_checksum

SIZE_MAX = 5 << 20
FIELDS_OF_EACH = {"producer_name", "sequence_id", "publish_time", "uncompressed_size"}


def stored(members: dict[str, Any], options: ProducerOptions) -> tuple[pb.MessageMetadata, bytes]:
    message = parse_producer_message(json.dumps({"payload": "aGVsbG8=", **members}).encode())
    payload = single_payload(message, options, "me", 300, 1_000_000, SIZE_MAX)
    assert verify_checksum(payload)
    return parse_metadata(payload), body(payload)


@pytest.mark.parametrize(
    ("members", "field", "value"),
    [
        ({}, "uncompressed_size", 5),
        ({"context": "c"}, "uncompressed_size", 5),
        ({"key": ""}, "partition_key", ""),
        ({"key": "k"}, "partition_key", "k"),
        ({"properties": {"a": "1"}}, "properties", [pb.KeyValue(key="a", value="1")]),
        ({"replicationClusters": ["r1"]}, "replicate_to", ["r1"]),
        ({"eventTime": "1970-01-01T00:00:01Z"}, "event_time", 1_000),
        ({"deliverAt": 17}, "deliver_at_time", 17),
        ({"deliverAfterMs": 18}, "deliver_at_time", 1_000_018),
    ],
)
def test_each_member_alone_is_stored(members: dict[str, Any], field: str, value: Any) -> None:
    metadata, content = stored(members, ProducerOptions())
    assert getattr(metadata, field) == value
    assert (metadata.producer_name, metadata.sequence_id, metadata.publish_time) == ("me", 300, 1_000_000)
    fields = {each.name for each, _ in metadata.ListFields()}
    assert fields - {"partition_key_b64_encoded"} == FIELDS_OF_EACH | {field}
    assert content == b"hello"


def test_a_message_that_has_only_a_payload_is_compressed_or_described_as_the_socket_says() -> None:
    assert stored({}, ProducerOptions(compression=pb.LZ4))[0].compression == pb.LZ4
    keys = (pb.EncryptionKeys(key="k", value=b"secret"),)
    assert list(stored({}, ProducerOptions(encryption_keys=keys))[0].encryption_keys) == list(keys)
