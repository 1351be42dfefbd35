"""What Java and C++ clients asked a broker of 4.0.7 about schemas is answered here with the same frames.

The captures leave out frames that repeat, so two schemas whose registration was left out are stored before the replay.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.schema.schema_types import schema_of_record
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.errors import IncompatibleSchema
from pulsar_proto.names import TopicName
from pulsar_proto.pb import managed_ledger_pb2 as records
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.pulsar_proto.vectors import load, unhex
from tests.server.fakes import make_traffic
from tests.server.protocol.handler_scene import connected

Type = pb.BaseCommand
ASKED = {Type.GET_SCHEMA: "getSchema", Type.GET_OR_CREATE_SCHEMA: "getOrCreateSchema", Type.PRODUCER: "producer"}
ANSWERS = {
    Type.GET_SCHEMA_RESPONSE: "getSchemaResponse",
    Type.GET_OR_CREATE_SCHEMA_RESPONSE: "getOrCreateSchemaResponse",
    Type.PRODUCER_SUCCESS: "producer_success",
    Type.ERROR: "error",
}
OFF_CAMERA = {"javro": 2, "kavro": 1}
"""By topic: how many of javro's two schemas were registered outside of the capture."""


@dataclass
class FakeTopic:
    name: TopicName
    policies: EffectivePolicies = field(default_factory=EffectivePolicies)
    producers: dict[str, object] = field(default_factory=dict)
    consumers_with_schema: int = 0
    stored_bytes: int = 0


def exchanges() -> list[tuple[pb.BaseCommand, pb.BaseCommand]]:
    waiting: dict[int, pb.BaseCommand] = {}
    found = []
    for item in load("pulsar_frames.json"):
        frame = unhex(item["hex"])
        command = pb.BaseCommand.FromString(frame[8 : 8 + int.from_bytes(frame[4:8], "big")])
        if command.type in ASKED:
            body = getattr(command, ASKED[command.type])
            if command.type != Type.PRODUCER or body.HasField("schema"):
                waiting[body.request_id] = command
        elif command.type in ANSWERS:
            asked = waiting.pop(getattr(command, ANSWERS[command.type]).request_id, None)
            if asked is not None:
                found.append((asked, command))
    return found


async def test_captured_questions_are_answered_as_captured() -> None:
    traffic = make_traffic()
    service: Any = traffic.broker.service
    entries = [item for item in load("pulsar_entries.json") if item.get("of") == "public/default/javro"]
    for topic, count in OFF_CAMERA.items():
        for item in sorted(entries, key=lambda item: int(item["ledger"]))[:count]:
            schema = schema_of_record(records.SchemaEntry.FromString(unhex(item["hex"])).schema_data)
            await service.schemas.registry.put(f"public/default/{topic}", schema, CompatibilityStrategy.FULL)
    peer = await connected(traffic)
    kinds = []
    for asked, answer in exchanges():
        kinds.append(asked.type)
        body = getattr(asked, ASKED[asked.type])
        if asked.type == Type.PRODUCER:
            admitting = service.schemas.admit_producer(FakeTopic(TopicName.parse(body.topic)), body.schema)
            if answer.type == Type.ERROR:
                with pytest.raises(IncompatibleSchema) as refused:
                    await admitting
                assert refused.value.message == answer.error.message
            else:
                assert await admitting == answer.producer_success.schema_version
            continue
        if not body.topic.endswith("notloaded"):
            service.stored.add(body.topic)
        peer.say(asked)
        assert await peer.answer() == answer
    assert len(kinds) >= 15
    assert set(kinds) == set(ASKED)
