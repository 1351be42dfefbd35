"""Strings that are not UTF-8, or are odd, in every string field of every command and of every message: each ends in an
answer, a closed connection or a delivered message, and no other client notices, not even after a restart."""

import logging
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch, build_payload
from pulsar_proto.wire.commands import send_frame, simple_frame
from tests.pulsar_proto.text_paths import Path as FieldPath
from tests.pulsar_proto.text_paths import least, text_paths, with_text
from tests.rounds import rounds
from tests.server.fakes import command
from tests.server.served import Served, Wire, serving

TOPIC = "persistent://public/default/x"
REST = "/admin/v2/persistent/public/default"
PING = simple_frame(command("PING", "ping"))

NOT_UTF8 = (b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"t\x80")
ODD = ("\0", "a\nb", "\x1b[31m", "\u2028", "x" * (1 << 20), "é" * 600, "..", "/", "a/b/c/d", "%00", "\U0001f680")


class Text(bytes):
    """Bytes that are printed in short form when a test fails."""

    def __repr__(self) -> str:
        return f"{bytes(self[:20])!r} of {len(self)}"


TEXT = st.sampled_from([*NOT_UTF8, *(Text(each.encode()) for each in ODD)]) | st.binary(max_size=9)

COMMANDS = [
    (kind, path) for kind in TABLE for path in text_paths(pb.BaseCommand.DESCRIPTOR) if path[0] == TABLE[kind].field
]
MESSAGE_PATHS = list(text_paths(pb.MessageMetadata.DESCRIPTOR))

DEDUPLICATING = {"brokerDeduplicationEnabled": "true", "brokerDeduplicationEntriesInterval": "10"}
KINDS = list(pb.CommandSubscribe.SubType.values())


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def frame_with(kind: int, path: FieldPath, text: bytes) -> bytes:
    """Makes a command about the topic and subscription "x" that would be served, except for one string in it."""
    made = pb.BaseCommand(type=pb.BaseCommand.Type.ValueType(kind))
    body: Any = getattr(made, path[0])
    body.MergeFrom(least(body.DESCRIPTOR))
    if "namespace" in body.DESCRIPTOR.fields_by_name:
        body.namespace = "public/default"
    encoded = with_text(made, path, text)
    return b"".join(((len(encoded) + 4).to_bytes(4, "big"), len(encoded).to_bytes(4, "big"), encoded))


def command_is_answered(served: Served, kind: int, path: FieldPath, text: bytes) -> None:
    """The command gets its own answer or a closed connection; a command that has no answer may get nothing."""
    wire = Wire(served.port, connects=kind != pb.BaseCommand.CONNECT)
    wire.say(frame_with(kind, path, text))
    wire.say(PING)
    answered = False
    while (made := wire.next()) is not None and made.type != pb.BaseCommand.PONG:
        answered |= made.type not in (pb.BaseCommand.CONNECTED, pb.BaseCommand.PING)
    if kind == pb.BaseCommand.CONNECT:
        assert (made is None) != is_utf8(text)
    elif made is not None and not answered and TABLE[kind].refuse is not None and kind != pb.BaseCommand.ACK:
        assert is_utf8(text), f"{path} was neither refused nor closed the connection"
        assert wire.next() is not None, "a command that takes longer than a PING"
    wire.close()


def others_go_on(served: Served) -> None:
    """Another client produces and consumes on the same topic and subscription."""
    wire = Wire(served.port)
    key = f"{time.monotonic_ns()}".encode()
    wire.say(simple_frame(command("PRODUCER", "producer", topic=TOPIC, producer_id=1, request_id=1)))
    assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
    subscribe = {"topic": TOPIC, "subscription": "x", "subType": pb.CommandSubscribe.Shared, "consumer_id": 1}
    wire.say(simple_frame(command("SUBSCRIBE", "subscribe", request_id=2, **subscribe)))
    assert wire.until(pb.BaseCommand.SUCCESS) is not None
    wire.say(simple_frame(command("FLOW", "flow", consumer_id=1, messagePermits=1_000)))
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    wire.say(send_frame(pb.CommandSend(producer_id=1, sequence_id=0), build_payload(metadata, key)))
    assert wire.until(pb.BaseCommand.SEND_RECEIPT) is not None
    while True:
        made, payload = wire.frame()
        assert made is not None
        if made.type == pb.BaseCommand.MESSAGE:
            ack = command("ACK", "ack", consumer_id=1, ack_type=0, message_id=[made.message.message_id])
            wire.say(simple_frame(ack))
            if payload.endswith(key):
                break
    wire.close()
    for path in ("/metrics", f"{REST}/x/stats", f"{REST}/x/internalStats", f"{REST}", "/admin/v2/broker-stats/topics"):
        served.get(path)


def message_with(path: FieldPath) -> Callable[[int, bytes], bytes]:
    """Returns a function (number, text) -> message that puts the text into one of the message's strings."""

    def make(number: int, text: bytes) -> bytes:
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
        return payload_of(with_text(metadata, path, text), b"%d" % number)

    return make


def batch_with(number: int, text: bytes) -> bytes:
    """Makes a batch of one message with the text as its key."""
    single = with_text(pb.SingleMessageMetadata(payload_size=1), ("partition_key",), text)
    batch = build_batch([(pb.SingleMessageMetadata.FromString(single), b"x")])
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1, num_messages_in_batch=1)
    return build_payload(metadata, batch + b"")


def payload_of(metadata: bytes, content: bytes) -> bytes:
    return build_payload(pb.MessageMetadata.FromString(metadata), content)


MESSAGES: list[Callable[[int, bytes], bytes]] = [batch_with, *map(message_with, MESSAGE_PATHS)]


def consume(wire: Wire, topic: str, *, permits: int = 10_000) -> None:
    """Subscribes with every type of subscription."""
    for kind in KINDS:
        subscribe = {"subscription": f"s{kind}", "subType": kind, "consumer_id": kind}
        wire.say(simple_frame(command("SUBSCRIBE", "subscribe", topic=topic, request_id=kind, **subscribe)))
        assert wire.until(pb.BaseCommand.SUCCESS) is not None
    for kind in KINDS:
        wire.say(simple_frame(command("FLOW", "flow", consumer_id=kind, messagePermits=permits)))


def delivered(served: Served, wire: Wire, payload: bytes, number: int) -> None:
    """Publishes the message. Every consumer gets it unchanged, and REST can peek at it."""
    wire.say(send_frame(pb.CommandSend(producer_id=1, sequence_id=number), payload))
    waiting = set(KINDS)
    stored = False
    while waiting or not stored:
        made, content = wire.frame()
        assert made is not None, "the connection was closed"
        assert made.type != pb.BaseCommand.SEND_ERROR
        stored |= made.type == pb.BaseCommand.SEND_RECEIPT
        if made.type == pb.BaseCommand.MESSAGE:
            assert content == payload
            waiting.discard(made.message.consumer_id)
            message_id = made.message.message_id
            wire.say(
                simple_frame(
                    command("ACK", "ack", consumer_id=made.message.consumer_id, ack_type=0, message_id=[message_id])
                )
            )
    served.get(f"{REST}/messages/ledger/{message_id.ledgerId}/entry/{message_id.entryId}")


def compact(served: Served, topic: str) -> None:
    served.get(f"{REST}/{topic}/compaction", "PUT")
    while (status := served.json(f"{REST}/{topic}/compaction")["status"]) == "RUNNING":
        pass
    assert status == "SUCCESS"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("foreign"), overrides=DEDUPLICATING) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_error_of_ours(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR)
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


def named(each: object) -> str:
    return ".".join(each) if isinstance(each, tuple) else ""


class TestCommands:
    @pytest.mark.parametrize(("kind", "path"), COMMANDS, ids=named)
    def test_a_string_that_is_not_utf8_is_refused(self, served: Served, kind: int, path: FieldPath) -> None:
        for text in NOT_UTF8:
            command_is_answered(served, kind, path, text)
        others_go_on(served)

    def test_any_text_is_answered(self, served: Served) -> None:
        @settings(max_examples=rounds(200), deadline=None)
        @given(st.sampled_from(COMMANDS), TEXT)
        def scenario(place: tuple[int, FieldPath], text: bytes) -> None:
            command_is_answered(served, *place, text)

        scenario()
        others_go_on(served)


class TestMessages:
    def test_a_message_is_delivered_whatever_its_strings_are(self, served: Served) -> None:
        wire = Wire(served.port)
        topic = "persistent://public/default/messages"
        wire.say(simple_frame(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1)))
        assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
        consume(wire, topic)
        numbers = count()

        @settings(max_examples=rounds(100), deadline=None)
        @given(st.sampled_from(MESSAGES), TEXT)
        def scenario(make: Callable[[int, bytes], bytes], text: bytes) -> None:
            number = next(numbers)
            delivered(served, wire, make(number, text), number)

        scenario()
        for make in MESSAGES:
            for text in NOT_UTF8:
                number = next(numbers)
                delivered(served, wire, make(number, text), number)
        wire.close()
        others_go_on(served)
        for path in ("stats", "internalStats"):
            served.get(f"{REST}/messages/{path}")
        compact(served, "messages")


def test_after_a_restart_all_is_as_before(tmp_path: Path) -> None:
    with serving(tmp_path, overrides=DEDUPLICATING) as served:
        for kind, path in COMMANDS:
            for text in (NOT_UTF8[0], b"a\n\0"):
                command_is_answered(served, kind, path, text)
        wire = Wire(served.port)
        topic = "persistent://public/default/messages"
        wire.say(simple_frame(command("PRODUCER", "producer", topic=topic, producer_id=1, request_id=1)))
        assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
        consume(wire, topic, permits=1)
        for number, make in enumerate(MESSAGES):
            wire.say(send_frame(pb.CommandSend(producer_id=1, sequence_id=number), make(number, NOT_UTF8[0])))
            assert wire.until(pb.BaseCommand.SEND_RECEIPT) is not None
        others_go_on(served)
        wire.close()
    with serving(tmp_path, overrides=DEDUPLICATING) as served:
        others_go_on(served)
        wire = Wire(served.port)
        consume(wire, topic)
        got: set[tuple[int, bytes]] = set()
        while len(got) < len(MESSAGES) * len(KINDS):
            made, payload = wire.frame()
            assert made is not None
            if made.type == pb.BaseCommand.MESSAGE:
                got.add((made.message.consumer_id, payload))
        wire.close()
        compact(served, "messages")
