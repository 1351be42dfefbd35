"""Parses SENDs, the command that a broker gets once per message.

A client's SEND is a BaseCommand with these bytes (the fields above, their encoding below):

    type=6   send, length   CommandSend: producer_id, sequence_id, …
    08 06    32 nn          08 … 10 …

If the length byte covers all that is left (`data[3] == len(data) - 4`, below 128), no field stands before or after
`send`, and its CommandSend is exactly `data[4:]`.

Nearly every SEND has no other fields than numbers: the two ids, the number of messages in a batch and the last sequence
id of a batch. `plain_send` reads these by hand, which costs a fraction of what protobuf's parser and its objects cost.
Any other bytes are parsed by `parse_send`, with protobuf, which also says what is wrong with them. So the short way
need not know everything, but what it does read it must read as protobuf does.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import short_varint_at
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.framing import Frame

PLAIN_SEND_PREFIX = b"\x08\x06\x32"
"""How every client begins a SEND: field 1 (type) with the value 6, then the tag of field 6."""

RUN_MAX = 1_000
"""The largest number of SENDs in one run. Such a run takes some milliseconds; then other connections have their
turn."""

_BODY_AT: Final = 4
_PRODUCER_ID: Final = 0x08
_SEQUENCE_ID: Final = 0x10
_NUM_MESSAGES: Final = 0x18
_HIGHEST_SEQUENCE_ID: Final = 0x30
"""The tags of fields 1, 2, 3 and 6 of CommandSend."""
_I32_MAX: Final = 2**31 - 1


class PlainSend:
    """A SEND that has only the fields which this class has, by the names of `CommandSend`."""

    __slots__ = ("highest_sequence_id", "num_messages", "producer_id", "sequence_id")

    def __init__(self, producer_id: int, sequence_id: int, num_messages: int, highest_sequence_id: int) -> None:
        self.producer_id = producer_id
        self.sequence_id = sequence_id
        self.num_messages = num_messages
        self.highest_sequence_id = highest_sequence_id


Send = pb.CommandSend | PlainSend


def plain_send(data: bytes) -> PlainSend | None:
    """Parses a SEND that has only the fields of `PlainSend`. Returns None for all other bytes."""
    end = len(data)
    if not data.startswith(PLAIN_SEND_PREFIX) or not _BODY_AT < end < _BODY_AT + 128 or data[3] != end - _BODY_AT:
        return None
    producer_id = sequence_id = -1
    num_messages, highest_sequence_id = 1, 0
    at = _BODY_AT
    while at < end:
        tag = data[at]
        value, at = short_varint_at(data, at + 1, end)
        if value < 0:
            return None
        if tag == _PRODUCER_ID:
            producer_id = value
        elif tag == _SEQUENCE_ID:
            sequence_id = value
        elif tag == _NUM_MESSAGES and value <= _I32_MAX:
            num_messages = value
        elif tag == _HIGHEST_SEQUENCE_ID:
            highest_sequence_id = value
        else:
            return None
    if producer_id < 0 or sequence_id < 0:
        return None
    return PlainSend(producer_id, sequence_id, num_messages, highest_sequence_id)


def single_sends(
    producer_id: int, first_sequence_id: int, payloads: Sequence[bytes]
) -> list[tuple[pb.CommandSend, bytes]]:
    """Returns the SENDs of single messages whose sequence ids follow one another."""
    return [
        (pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, num_messages=1), payload)
        for sequence_id, payload in enumerate(payloads, first_sequence_id)
    ]


_new_send = pb.CommandSend.FromString


def end_of_run(frames: Sequence[Frame], start: int) -> int:
    """Returns the index after the last SEND of the run that begins at `start`: the SENDs that directly follow one
    another, at most RUN_MAX. The first frame may hold any command; `parse_send` checks it."""
    index = start + 1
    end = min(len(frames), start + RUN_MAX)
    while index < end and frames[index][0].startswith(PLAIN_SEND_PREFIX):
        index += 1
    return index


def parse_send(data: bytes) -> pb.CommandSend:
    """Parses one SEND, faster than `parse_command` where `type` comes first and the body is below 128 bytes.

    Raises MalformedFrame also for any other type of command.
    """
    try:
        if data.startswith(PLAIN_SEND_PREFIX) and data[3] == len(data) - 4 < 128:
            send = _new_send(data[4:])
            # To ask protobuf for missing required fields (IsInitialized) costs as much as the parse. There is no need
            # when the bytes show that none is missing: CommandSend requires producer_id and sequence_id, which lead in
            # every client's encoding (tag 0x08, one byte of id, tag 0x10), and the only field with required fields of
            # its own is message_id, whose tag 0x4a must not occur. Where it occurs as part of a number, we just ask.
            if (data[4] == 0x08 and data[5] < 128 and data[6] == 0x10 and 0x4A not in data) or send.IsInitialized():
                return send
            raise MalformedFrame(f"SEND of {len(data)} bytes lacks a required field")
    except (DecodeError, IndexError) as error:
        raise MalformedFrame(f"SEND of {len(data)} bytes does not decode") from error
    command = parse_command(data)
    if command.type != pb.BaseCommand.SEND:
        raise MalformedFrame(f"command of type {command.type} where a SEND was expected")
    return command.send
