"""Strategies of hypothesis that draw frames of all kinds, sensible ones and others."""

from typing import Any

from hypothesis import strategies as st

from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame, simple_frame
from tests.server.fakes import command

TOPICS = ["persistent://public/default/t", "t", "persistent://public/nons/t", "bad://x", "", "\x00"]
IDS = st.integers(0, 3)
CLOSING = (set(pb.BaseCommand.Type.values()) - set(TABLE)) | {pb.BaseCommand.CONNECT}
"""Commands that close a connection. They are drawn seldom, so that most scenarios live longer."""

PAYLOAD = build_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"hello")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(TOPICS),
    "namespace": st.sampled_from(["public/default", "x", "", "public/nons"]),
    "subscription": st.sampled_from(["s", "", "pulsar.dedup"]),
    "topics_pattern": st.sampled_from(["public/default/.*", "(", "(a+)+", "\\p{L}", "a" * 60]),
    "messagePermits": st.sampled_from([0, 1, 1000, 2**31, 2**32 - 1]),
    "client_version": st.text(max_size=5),
    "protocol_version": st.integers(-1, 30),
    "schema_version": st.binary(max_size=8),
    "advertised_listener_name": st.sampled_from(["", "x"]),
    "message_publish_time": st.integers(0, 5),
    "message_id": st.just(pb.MessageIdData(ledgerId=1, entryId=1)),
}


def field_value(field: Any) -> st.SearchStrategy[Any]:
    if field.name in VALUES and (field.message_type is None or field.name == "message_id"):
        strategy = VALUES[field.name]
        return st.lists(strategy, max_size=2) if field.is_repeated else strategy
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.message_type is not None:
        body = body_of(field.message_type._concrete_class)
        return st.lists(body, max_size=2) if field.is_repeated else body
    kinds: dict[int, st.SearchStrategy[Any]] = {
        field.CPPTYPE_STRING: st.text(max_size=3) if field.type == field.TYPE_STRING else st.binary(max_size=3),
        field.CPPTYPE_BOOL: st.booleans(),
        field.CPPTYPE_DOUBLE: st.just(0.0),
    }
    value = kinds.get(field.cpp_type, IDS)
    return st.lists(value, max_size=2) if field.is_repeated else value


def body_of(message: Any) -> st.SearchStrategy[Any]:
    fields = {field.name: field for field in message.DESCRIPTOR.fields if field.message_type != message.DESCRIPTOR}
    return st.fixed_dictionaries(
        {name: field_value(field) for name, field in fields.items() if field.is_required},
        optional={name: field_value(field) for name, field in fields.items() if not field.is_required},
    ).map(lambda values: message(**values))


def command_of(number: Any, field: str, body: Any) -> pb.BaseCommand:
    made = pb.BaseCommand(type=number)
    getattr(made, field).CopyFrom(body)
    return made


def any_command() -> st.SearchStrategy[pb.BaseCommand]:
    """Draws well-formed commands: mostly those of a client, sometimes those that only brokers send."""
    fields = pb.BaseCommand.DESCRIPTOR.fields[1:]
    kinds: list[Any] = [field.message_type for field in fields]
    bodies = {field: body_of(kind._concrete_class) for field, kind in zip(fields, kinds, strict=True)}
    weighted = [field for field in fields for _ in range(1 if field.number in CLOSING else 12)]
    return st.sampled_from(weighted).flatmap(
        lambda field: bodies[field].map(lambda value: command_of(field.number, field.name, value))
    )


SENDS = st.builds(
    lambda producer_id, sequence_id, payload: send_frame(
        pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id), payload
    ),
    IDS,
    IDS,
    st.sampled_from([PAYLOAD] * 5 + [PAYLOAD[:-1] + b"!", b"", PAYLOAD[:9], PAYLOAD[6:], b"\x0e\x02" + PAYLOAD]),
)


FRAMES = st.one_of(any_command().map(simple_frame), SENDS)


CONNECT = simple_frame(command("CONNECT", "connect", client_version="fuzz", protocol_version=20))


def sensible_command(kind: str, item: int) -> pb.BaseCommand:
    """Returns a command that a client of one topic sends about its producer or consumer `item`."""
    ids = {"producer_id": item, "consumer_id": item, "request_id": item, "topic": "t", "subscription": "s"}
    extra = {"subType": 0, "messagePermits": 10, "ack_type": 0, "message_publish_time": 1}
    field = TABLE[pb.BaseCommand.Type.Value(kind)].field
    message = getattr(pb.BaseCommand(), field)
    names = message.DESCRIPTOR.fields_by_name
    return command(kind, field, **{name: value for name, value in {**ids, **extra}.items() if name in names})


SENSIBLE_KINDS = ["PRODUCER", "SUBSCRIBE", "CLOSE_PRODUCER", "CLOSE_CONSUMER", "ACK", "FLOW", "SEEK", "UNSUBSCRIBE"]


SENSIBLE = st.builds(sensible_command, st.sampled_from([*SENSIBLE_KINDS, "PRODUCER", "SUBSCRIBE", "LOOKUP"]), IDS)
