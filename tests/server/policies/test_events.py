"""The events of `__change_events` are byte for byte what Apache's broker writes."""

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from magnetar.server.policies.event_schema import EVENT_SCHEMA, policy_names
from magnetar.server.policies.policy_events import GLOBAL_PREFIX, PolicyEvent, decode, encode, version_of
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "topic_policies_events.json").read_text())
PARSED = fastavro.parse_schema(EVENT_SCHEMA)
TOPIC = TopicName.parse("persistent://public/default/plain")


def encoded(policies: dict[str, Any] | None, topic: TopicName = TOPIC, **given: Any) -> bytes:
    fields: dict[str, Any] = {
        "is_global": False,
        "cluster": "standalone",
        "producer_name": "p",
        "sequence_id": 0,
        "now_ms": 1,
        **given,
    }
    return encode(topic, policies, PARSED, 0, **fields)


def test_the_schema_is_the_one_that_apache_registers() -> None:
    assert json.loads(VECTORS["schema"]) == EVENT_SCHEMA


@pytest.mark.parametrize("entry", VECTORS["entries"], ids=lambda entry: f"{entry['sequence_id']}")
def test_an_entry_of_apache_is_read_and_written_again(entry: dict[str, Any]) -> None:
    payload = bytes.fromhex(entry["hex"])
    event = decode(payload, PARSED)
    assert event is not None
    assert event.key == entry["key"]
    assert event.policies == {key: value for key, value in entry["policies"].items() if value is not None}
    assert version_of(payload) == 0
    is_global = entry["key"].startswith(GLOBAL_PREFIX)
    again = encoded(
        event.policies,
        TopicName.parse(entry["key"].removeprefix(GLOBAL_PREFIX)),
        is_global=is_global,
        producer_name=entry["producer_name"],
        sequence_id=entry["sequence_id"],
        now_ms=entry["publish_time"],
    )
    assert again == payload


def test_every_policy_comes_back() -> None:
    rate = {
        "dispatchThrottlingRateInMsg": 1,
        "dispatchThrottlingRateInByte": 2,
        "relativeToPublishRate": True,
        "ratePeriodInSecond": 3,
    }
    policies = {
        "backLogQuotaMap": {
            "message_age": {"limit": 0, "limitSize": 0, "limitTime": 9, "policy": "producer_exception"}
        },
        "inactiveTopicPolicies": {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 4,
            "deleteWhileInactive": True,
        },
        "subscriptionPolicies": {"s": {"dispatchRate": rate}},
        "subscriptionTypesEnabled": ["Shared"],
        "schemaCompatibilityStrategy": "FORWARD",
        "replicatorDispatchRate": rate,
    }
    event = decode(encoded(policies), PARSED)
    assert event == PolicyEvent(TOPIC.full, {**policies, "isGlobal": False})


def test_a_deletion_is_a_message_without_a_value() -> None:
    assert decode(encoded(None), PARSED) == PolicyEvent(TOPIC.full, None)


def test_what_is_no_event_is_told() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    assert decode(build_payload(metadata, b"x"), PARSED) is None, "no key"
    metadata.partition_key = "k"
    with pytest.raises(MalformedRecord):
        decode(build_payload(metadata, b"\xff\xff"), PARSED)
    with pytest.raises(ValueError, match="cannot be stored"):
        encoded({"maxProducerPerTopic": "many"})


def test_a_schema_that_is_another_one_has_no_policies() -> None:
    assert "messageTTLInSeconds" in policy_names(EVENT_SCHEMA)
    assert policy_names({"type": "record", "fields": []}) == frozenset()
    assert policy_names({"type": "string"}) == frozenset()
