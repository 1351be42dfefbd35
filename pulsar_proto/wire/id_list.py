"""Cuts a long list of message ids into shorter commands, before any of it is parsed.

Clients group a thousand acknowledgements, but when acknowledgements time out, C++ and Python clients ask for everything
again that a consumer holds, in one REDELIVER_UNACKNOWLEDGED_MESSAGES: fifty thousand ids
(`maxUnackedMessagesPerConsumer`). To parse and handle them at once would make everybody else wait. So the broker cuts
off a portion at a time, which is a sound command by itself.
"""

from typing import NamedTuple

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.varint import varint, varint_at

PORTION_IDS = 1_000
PORTION_BYTES = 32 << 10
"""A portion ends with the id that reaches either."""
LIST_BYTES_MAX = 2 << 20
"""Of a whole command: twice the fifty thousand ids that a consumer may hold by default, as clients write them."""
LEADING_FIELDS_MAX = 4
"""What stands before the ids: the consumer's id and, of an ACK, its type. Every portion repeats it."""


class _IdListCommand(NamedTuple):
    """How a command with a list of ids begins, and with which byte each id does."""

    begin: bytes
    id_tag: int


_COMMANDS = (_IdListCommand(b"\x08\x0a\x52", 3 << 3 | 2), _IdListCommand(b"\x08\x14\xa2\x01", 2 << 3 | 2))
"""CommandAck.message_id, CommandRedeliverUnacknowledgedMessages.message_ids. The type comes first in every client's
encoding."""
ID_LISTS = tuple(kind.begin for kind in _COMMANDS)


def is_long_id_list(data: bytes) -> bool:
    return len(data) > PORTION_BYTES and data.startswith(ID_LISTS)


def cut_id_list(data: bytes) -> list[bytes]:
    """A long ACK or REDELIVER as two commands with the same meaning: a portion, and all that is left, which may be long
    itself. What follows the ids, among it the request id of an ACK, goes with the last one. Returns one command when
    there is nothing to cut off.

    Raises MalformedFrame for a list of more than LIST_BYTES_MAX, and for ids that stand where no client writes them.
    """
    if len(data) > LIST_BYTES_MAX:
        raise MalformedFrame(f"a list of message ids has {len(data)} bytes, at most {LIST_BYTES_MAX} are taken")
    kind = next(each for each in _COMMANDS if data.startswith(each.begin))
    size, start = varint_at(data, len(kind.begin), len(data))
    end = len(data)
    if start + size != end:
        raise MalformedFrame(f"a list of message ids of {end} bytes says that it has {size}")
    first = _first_id(data, start, end, kind.id_tag)
    at, ids = first, 0
    while at < end and data[at] == kind.id_tag and ids < PORTION_IDS and at - first < PORTION_BYTES:
        size, at = varint_at(data, at + 1, end)
        at += size
        ids += 1
    if at >= end or data[at] != kind.id_tag:
        return [data]
    leading = data[start:first]
    return [_command(kind, leading + data[first:at]), _command(kind, leading + data[at:])]


def _first_id(data: bytes, at: int, end: int, id_tag: int) -> int:
    for _ in range(LEADING_FIELDS_MAX):
        if at >= end or data[at] == id_tag:
            break
        if data[at] & 7 != 0:
            raise MalformedFrame("a list of message ids begins with something else than numbers")
        _, at = varint_at(data, at + 1, end)
    return at


def _command(kind: _IdListCommand, body: bytes) -> bytes:
    return kind.begin + varint(len(body)) + body
