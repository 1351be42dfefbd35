"""Parses the SENDs of one socket read together: half the cost of parsing each (measured 0.45 instead of 0.9 µs).

Protobuf encodes a repeated message as its elements one after another, and a SEND without its `type` is exactly such an
element of number 6. Only plain SENDs may be taken so: those whose length says that nothing follows the one body.
"""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_send
from pulsar_proto.wire.framing import Frame

PLAIN_SEND_PREFIX = b"\x08\x06\x32"
"""How every client begins a SEND: field 1 (type) = 6, then field 6 with its length."""

RUN_MAX = 1_000
"""SENDs of one run: some milliseconds, after which others may have their turn."""

_TYPE_BYTES = 2

_parse_run = pb.SendRun.FromString


def end_of_run(frames: Sequence[Frame], start: int) -> int:
    """The index after the last of the plain SENDs that follow `start` without another command between, RUN_MAX at most;
    `start` itself is not looked at."""
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
    """One CommandSend for each command. All but the first must be plain. Raises MalformedFrame."""
    first = commands[0]
    size = len(first) - 4
    if len(commands) > 1 and first.startswith(PLAIN_SEND_PREFIX) and 0 <= size < 128 and first[3] == size:
        try:
            run = _parse_run(b"".join([command[_TYPE_BYTES:] for command in commands]))
            if run.IsInitialized():
                return run.send
        except DecodeError:
            pass  # parse_send below says which one is broken
    return [parse_send(command) for command in commands]
