"""Cuts an ACK or REDELIVER_UNACKNOWLEDGED_MESSAGES with a long list of message ids into shorter commands, without
parsing it.

Clients acknowledge a thousand messages at a time. But when acknowledgements time out, C++ and Python clients ask for
all messages again that a consumer holds, in one REDELIVER_UNACKNOWLEDGED_MESSAGES of up to fifty thousand ids
(`maxUnackedMessagesPerConsumer`). Parsing and handling so many ids at once would make all other clients wait. So the
broker cuts off one portion at a time, each a sound command by itself:

    begin size | consumer id, type | id id id … id id id … id | request id         as it came
    begin size'| consumer id, type | id id id …                                    a portion
    begin size"| consumer id, type |                 id id … id | request id       the rest, perhaps cut again

The cut needs no parser, because an encoded message is its fields one after another, each with its own tag and length;
a repeated field may end anywhere between two elements. The cut is safe because of two things. The portions together
mean what the whole command meant: ids are handled one by one in both commands, the leading fields are repeated, and
what follows the ids (the request id, to which there must be one answer only) goes with the last portion alone. And
nothing foreign is cut: bytes that do not have the shape above, as every client writes it, are refused or stay one
command, which the parser judges.

An ACK of a transaction stays one command, too. Its portions would not mean the same: the transaction's id stands behind
the ids, and one message that cannot be acknowledged fails them all.
"""

import re
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint, varint_at

PORTION_IDS = 1_000
PORTION_BYTES = 32 << 10
"""The limits of a portion in ids and in bytes. A portion ends with the id that reaches one of the limits."""
LIST_BYTES_MAX = 2 << 20
"""The longest command in bytes: room for twice the fifty thousand ids that a consumer may hold by default, in the
encoding of all clients."""
TXN_ACK_IDS_MAX = 30_000
"""How many ids an ACK of a transaction may have. It is parsed at once, which takes some milliseconds for this
number."""
TXN_ID_BYTES_MAX = 3 * 11
"""The most bytes that the two halves of a transaction's id and a request id take, with their tags."""
LEADING_FIELDS_MAX = 4
"""How many fields may stand before the ids: the consumer's id and, in an ACK, its type. Every portion repeats them."""


class _IdListCommand(NamedTuple):
    """The bytes that a command with a list of ids begins with, and the tag before each id."""

    begin: bytes
    id_tag: int


_COMMANDS = (_IdListCommand(b"\x08\x0a\x52", 3 << 3 | 2), _IdListCommand(b"\x08\x14\xa2\x01", 2 << 3 | 2))
"""ACK with CommandAck.message_id (field 3), and REDELIVER_UNACKNOWLEDGED_MESSAGES with message_ids (field 2). The type
comes first in every client's encoding."""
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_TXN_ID_AT_END = re.compile(rb"\x30%b\x38%b(?:\x40%b)?\Z" % (_VARINT, _VARINT, _VARINT))
"""What an ACK of a transaction ends with: CommandAck.txnid_least_bits and txnid_most_bits (fields 6 and 7), and perhaps
the request id (field 8)."""
ID_LISTS = tuple(kind.begin for kind in _COMMANDS)


def is_long_id_list(data: bytes) -> bool:
    """Returns whether the command is one that `cut_id_list` must cut before it is parsed."""
    return len(data) > PORTION_BYTES and data.startswith(ID_LISTS)


def cut_id_list(data: bytes) -> list[bytes]:
    """Cuts a long ACK or REDELIVER into two commands: a portion, and all that is left, which may be long itself.

    Returns the command alone when there is nothing to cut off. Raises MalformedFrame for a command of more than
    LIST_BYTES_MAX, and for ids that stand where no client writes them.
    """
    if len(data) > LIST_BYTES_MAX:
        raise MalformedFrame(f"a list of message ids has {len(data)} bytes, at most {LIST_BYTES_MAX} are taken")
    kind = next(each for each in _COMMANDS if data.startswith(each.begin))
    size, start = varint_at(data, len(kind.begin), len(data))
    end = len(data)
    if start + size != end:
        raise MalformedFrame(f"a list of message ids of {end} bytes says that it has {size}")
    if is_ack_of_transaction(data):
        return [data]
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


def is_ack_of_transaction(data: bytes) -> bool:
    """Returns whether a command is an ACK of a transaction. Raises MalformedFrame for one with too many ids."""
    if not data.startswith(ID_LISTS[0]) or not _TXN_ID_AT_END.search(data, max(0, len(data) - TXN_ID_BYTES_MAX)):
        return False
    if data.count(_COMMANDS[0].id_tag) > TXN_ACK_IDS_MAX:  # each id has this byte before it
        raise MalformedFrame(f"an acknowledgement in a transaction has more than {TXN_ACK_IDS_MAX} message ids")
    try:
        ack = pb.BaseCommand.FromString(data).ack
    except DecodeError:
        return False
    return ack.HasField("txnid_least_bits") and ack.HasField("txnid_most_bits")


def _first_id(data: bytes, at: int, end: int, id_tag: int) -> int:
    """Returns the offset of the first id, which follows the leading fields. There may be at most LEADING_FIELDS_MAX of
    these."""
    for _ in range(LEADING_FIELDS_MAX):
        if at >= end or data[at] == id_tag:
            break
        if data[at] & 7 != 0:
            raise MalformedFrame("a list of message ids begins with something else than numbers")
        _, at = varint_at(data, at + 1, end)
    return at


def _command(kind: _IdListCommand, body: bytes) -> bytes:
    return kind.begin + varint(len(body)) + body
