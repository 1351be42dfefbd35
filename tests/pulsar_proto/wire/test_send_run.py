"""SENDs parsed together are what they are when parsed alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.send_run import end_of_run, parse_send, parse_sends

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


def command_of(send: pb.CommandSend) -> bytes:
    return pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString()


@given(st.lists(SENDS, min_size=1, max_size=20))
def test_a_run_equals_its_parts(sends: list[pb.CommandSend]) -> None:
    commands = [command_of(send) for send in sends]
    assert list(parse_sends(commands)) == sends
    assert end_of_run([(command, b"") for command in commands], 0) == len(commands)


@given(st.lists(SENDS.map(command_of) | st.binary(max_size=12).map(b"\x08\x06\x32".__add__), min_size=1, max_size=8))
def test_broken_ones_among_them_are_found_as_when_parsed_alone(commands: list[bytes]) -> None:
    end = end_of_run([(command, None) for command in commands], 0)
    run = commands[:end]
    try:
        expected = [parse_send(command) for command in run]
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            parse_sends(run)
    else:
        assert list(parse_sends(run)) == expected


def test_a_length_that_reaches_into_the_next_command_ends_the_run() -> None:
    good = command_of(pb.CommandSend(producer_id=1, sequence_id=2))
    liar = good[:3] + bytes([good[3] + 6]) + good[4:]
    assert end_of_run([(good, b""), (liar, b""), (good, b"")], 0) == 1
    with pytest.raises(MalformedFrame):
        parse_sends([liar, good])


def test_a_run_ends_before_another_command() -> None:
    good = command_of(pb.CommandSend(producer_id=1, sequence_id=2))
    ping = pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()).SerializeToString()
    for other in (ping, b"", b"\x08\x06\x32"):
        assert end_of_run([(good, b""), (good, b""), (other, None), (good, b"")], 0) == 2
