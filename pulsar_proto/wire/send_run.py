"""Parses SENDs, the command that a broker gets once per message: one by one, or all of one socket read together.

A client's SEND is a BaseCommand with these bytes (the fields above, their encoding below):

    type=6   send, length   CommandSend: producer_id, sequence_id, …
    08 06    32 nn          08 … 10 …

Two facts make the short ways below safe:

- A SEND whose length byte covers all that is left (`data[3] == len(data) - 4`, below 128) has no field before or after
  `send`: its CommandSend is exactly `data[4:]` and can be parsed without a BaseCommand around it.
- Protobuf encodes a repeated message field as its elements one after another, each with tag and length. Field 6 of
  BaseCommand is `send`, so a plain SEND without its first two bytes is one element of the repeated field 6 of
  `SendRun`, a message that our .proto adds for that purpose. The SENDs of one read, joined, are therefore one SendRun:

    08 06 [32 nn …]  08 06 [32 nn …]  08 06 [32 nn …]     as they came
          [32 nn …][32 nn …][32 nn …]                     one SendRun with three elements

One parse of the run costs half of what the parses of its SENDs cost (measured: 0.45 instead of 0.9 µs each). Any other
bytes are parsed by `parse_command`, like all other commands, with the same result or error.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.framing import Frame

PLAIN_SEND_PREFIX = b"\x08\x06\x32"
"""How every client begins a SEND: field 1 (type) with the value 6, then the tag of field 6."""

RUN_MAX = 1_000
"""The largest number of SENDs in one run. Such a run takes some milliseconds; then other connections have their
turn."""

_TYPE_BYTES = 2


def single_sends(
    producer_id: int, first_sequence_id: int, payloads: Sequence[bytes]
) -> list[tuple[pb.CommandSend, bytes]]:
    """Returns the SENDs of single messages whose sequence ids follow one another."""
    return [
        (pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, num_messages=1), payload)
        for sequence_id, payload in enumerate(payloads, first_sequence_id)
    ]


_parse_run = pb.SendRun.FromString
_new_send = pb.CommandSend.FromString


def end_of_run(frames: Sequence[Frame], start: int) -> int:
    """Returns the index after the last frame that can be parsed in one run with `frames[start]`.

    These are the plain SENDs that directly follow `start`, at most RUN_MAX with the first frame. The first frame may
    hold any command: `parse_sends` checks it.
    """
    index = start + 1
    end = min(len(frames), start + RUN_MAX)
    while index < end:
        command = frames[index][0]
        size = len(command) - 4
        if not command.startswith(PLAIN_SEND_PREFIX) or not 0 <= size < 128 or command[3] != size:
            break
        index += 1
    return index


def parse_sends(commands: Sequence[bytes]) -> Sequence[pb.CommandSend]:
    """Parses a run of SENDs; returns one CommandSend for each command.

    All commands but the first must be plain, as `end_of_run` finds them. Raises MalformedFrame for the first command
    that does not decode.
    """
    first = commands[0]
    size = len(first) - 4
    if len(commands) > 1 and first.startswith(PLAIN_SEND_PREFIX) and 0 <= size < 128 and first[3] == size:
        try:
            run = _parse_run(b"".join([command[_TYPE_BYTES:] for command in commands]))
            if run.IsInitialized():
                return run.send
        except DecodeError:
            pass  # parse_send below says which command is broken
    return [parse_send(command) for command in commands]


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
