"""Schemas, patterns and backlogs that clients made to be long work for the broker stop nobody.

The server's loop is watched (`serving`): a callback that holds it for long fails the test.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame, simple_frame
from tests.server.fakes import command
from tests.server.served import Served, Wire, serving

BACKLOG = 40_000
TOPICS = 200
LONG_NAME = "a" * 150


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("long_work")) as server:
        yield server


@pytest.fixture
def wire(served: Served) -> Iterator[Wire]:
    made = Wire(served.port)
    yield made
    made.close()


def record(fields: list[dict[str, Any]]) -> bytes:
    return json.dumps({"type": "record", "name": "R", "fields": fields}).encode()


def protobuf(messages: int) -> bytes:
    files = FileDescriptorSet()
    file = files.file.add(name="a.proto", package="p", syntax="proto3")
    for number in range(messages):
        file.message_type.add(name=f"M{number}").field.add(name="x", number=1, type=5, label=1)
    encoded = base64.b64encode(files.SerializeToString()).decode()
    definition = {"fileDescriptorSet": encoded, "rootMessageTypeName": "p.M1", "rootFileDescriptorName": "a.proto"}
    return json.dumps(definition).encode()


def fields(count: int) -> list[dict[str, Any]]:
    return [{"name": f"f{number}", "type": "string"} for number in range(count)]


UNION = [{"type": "record", "name": f"U{number}", "fields": fields(1)} for number in range(2_000)]
SCHEMAS: dict[str, tuple[int, list[bytes]]] = {
    "many fields, twice": (pb.Schema.Avro, [record(fields(12_000)), record(fields(12_001))]),
    "a wide union, turned round": (
        pb.Schema.Avro,
        [record([{"name": "a", "type": union}]) for union in (UNION, UNION[::-1])],
    ),
    "many messages of protobuf": (pb.Schema.ProtobufNative, [protobuf(10_000)]),
    "a megabyte that is no schema": (pb.Schema.Avro, [b"[" * 1_000_000]),
}


@pytest.mark.parametrize("what", SCHEMAS)
def test_a_long_schema_stops_nobody(wire: Wire, what: str) -> None:
    kind, definitions = SCHEMAS[what]
    for number, data in enumerate(definitions):
        schema = pb.Schema(name="s", type=pb.Schema.Type.ValueType(kind), schema_data=data)
        made = command("PRODUCER", "producer", topic=what, producer_id=number, request_id=number, schema=schema)
        wire.say(simple_frame(made))
        while (answer := wire.next()) is not None and answer.type not in (
            pb.BaseCommand.PRODUCER_SUCCESS,
            pb.BaseCommand.ERROR,
        ):
            pass
        assert answer is not None
        assert len(answer.error.message) < 20_000


def test_a_costly_pattern_stops_nobody(wire: Wire) -> None:
    for number in range(TOPICS):
        topic = f"non-persistent://public/default/{LONG_NAME}-{number}"
        wire.say(simple_frame(command("PRODUCER", "producer", topic=topic, producer_id=number, request_id=number)))
        assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
    for pattern in ("(.*)(.*)x", "public/default/a*a*b", ".*a.*a.*b", "(a|aa)+", "[^b]*[^b]*b", "a?" * 20):
        asked = {"namespace": "public/default", "topics_pattern": pattern, "mode": 1}
        wire.say(simple_frame(command("GET_TOPICS_OF_NAMESPACE", "getTopicsOfNamespace", request_id=1, **asked)))
        assert wire.until(pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE) is not None


@pytest.mark.parametrize("kind", [pb.CommandSubscribe.Failover, pb.CommandSubscribe.Shared])
@pytest.mark.slow
def test_a_backlog_that_is_sent_at_once_stops_nobody(served: Served, wire: Wire, kind: int) -> None:
    """The same holds for a backlog that is redelivered with holes of acknowledged messages, and for delayed
    messages."""
    topic = f"backlog-{kind}"
    subscribe = {"topic": topic, "subscription": "s", "subType": kind, "consumer_id": 1, "request_id": 1}
    wire.say(simple_frame(command("SUBSCRIBE", "subscribe", **subscribe)))
    wire.say(simple_frame(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=2)))
    assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
    for first in range(0, BACKLOG, 500):
        frames = []
        for number in range(first, first + 500):
            metadata = pb.MessageMetadata(
                producer_name="p", sequence_id=number, publish_time=1, partition_key=f"k{number}"
            )
            send = pb.CommandSend(producer_id=1, sequence_id=number)
            frames.append(send_frame(send, build_payload(metadata, b"x")))
        wire.say(b"".join(frames))
        for _ in frames:
            assert wire.until(pb.BaseCommand.SEND_RECEIPT) is not None
    wire.say(simple_frame(command("FLOW", "flow", consumer_id=1, messagePermits=2**31 - 1)))
    ids = messages(wire, BACKLOG)
    ack = command("ACK", "ack", consumer_id=1, ack_type=0, message_id=ids[:8_000:2])
    wire.say(simple_frame(ack))
    again = command("REDELIVER_UNACKNOWLEDGED_MESSAGES", "redeliverUnacknowledgedMessages", consumer_id=1)
    wire.say(simple_frame(again))
    messages(wire, BACKLOG - 4_000)
    late = {**subscribe, "subscription": "late", "consumer_id": 2, "request_id": 3, "initialPosition": 1}
    wire.say(simple_frame(command("SUBSCRIBE", "subscribe", **late)))
    assert wire.until(pb.BaseCommand.SUCCESS) is not None
    wire.say(simple_frame(command("FLOW", "flow", consumer_id=2, messagePermits=2**31 - 1)))
    messages(wire, BACKLOG)
    served.get(f"/admin/v2/persistent/public/default/{topic}/stats")


def messages(wire: Wire, count: int) -> list[pb.MessageIdData]:
    ids: list[pb.MessageIdData] = []
    while len(ids) < count:
        made = wire.until(pb.BaseCommand.MESSAGE)
        assert made is not None
        ids.append(made.message.message_id)
    return ids
