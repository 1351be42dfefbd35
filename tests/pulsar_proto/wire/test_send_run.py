"""A SEND that is read by hand is what protobuf reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.send_run import PlainSend, end_of_run, parse_send, plain_send

IDS = st.integers(0, 2**64 - 1)
SENDS = st.builds(
    pb.CommandSend,
    producer_id=IDS,
    sequence_id=IDS,
    num_messages=st.none() | st.integers(1, 2**31 - 1),
    highest_sequence_id=st.none() | IDS,
    is_chunk=st.none() | st.booleans(),
    message_id=st.none() | st.builds(pb.MessageIdData, ledgerId=IDS, entryId=IDS),
)

PLAIN = {"producer_id", "sequence_id", "num_messages", "highest_sequence_id"}
NUMBERS = st.lists(
    st.tuples(st.sampled_from([0x08, 0x10, 0x18, 0x20, 0x30]), st.integers(0, 2**64 - 1) | st.integers(0, 300)),
    max_size=5,
).map(lambda fields: b"".join(bytes([tag]) + varint(value) for tag, value in fields))
"""Bodies of SENDs of a few numbers, in any order and more than once."""


def command_of(send: pb.CommandSend) -> bytes:
    return pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString()


def fields_of(send: PlainSend) -> pb.CommandSend:
    """Returns protobuf's form of a plain SEND, with the fields that have other values than the default."""
    command = pb.CommandSend(producer_id=send.producer_id, sequence_id=send.sequence_id)
    if send.num_messages != 1:
        command.num_messages = send.num_messages
    if send.highest_sequence_id:
        command.highest_sequence_id = send.highest_sequence_id
    return command


def without_defaults(send: pb.CommandSend) -> pb.CommandSend:
    for name in ("num_messages", "highest_sequence_id"):
        if getattr(send, name) == getattr(pb.CommandSend(), name):
            send.ClearField(name)
    return send


@given(SENDS)
def test_a_send_of_ids_and_numbers_is_plain_and_means_the_same(send: pb.CommandSend) -> None:
    plain = plain_send(command_of(send))
    names = {field.name for field, _ in send.ListFields()}
    if plain is None:
        assert not names <= PLAIN or max(send.producer_id, send.sequence_id, send.highest_sequence_id) >= 1 << 63
    else:
        assert names <= PLAIN
        assert fields_of(plain) == without_defaults(send)


@given(NUMBERS | st.binary(max_size=40))
def test_what_passes_for_plain_is_what_protobuf_reads(body: bytes) -> None:
    data = b"\x08\x06\x32" + varint(len(body)) + body
    plain = plain_send(data)
    if plain is not None:
        send = parse_command(data).send
        assert fields_of(plain) == without_defaults(send)


def test_what_is_cut_off_or_lacks_an_id_is_not_plain() -> None:
    good = command_of(pb.CommandSend(producer_id=300, sequence_id=2, num_messages=200))
    assert plain_send(good) is not None
    for size in range(len(good)):
        assert plain_send(good[:size]) is None
        body = good[4:size]
        if len(body) < 5:  # the ids take five bytes; what is left of the third field is cut off or missing
            assert plain_send(b"\x08\x06\x32" + bytes([len(body)]) + body) is None
    liar = good[:3] + bytes([good[3] + 6]) + good[4:]
    assert plain_send(liar) is None
    with pytest.raises(MalformedFrame):
        parse_send(liar)


def test_a_run_ends_before_another_command() -> None:
    good = command_of(pb.CommandSend(producer_id=1, sequence_id=2))
    ping = pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()).SerializeToString()
    for other in (ping, b""):
        assert end_of_run([(good, b""), (good, b""), (other, None), (good, b"")], 0) == 2
