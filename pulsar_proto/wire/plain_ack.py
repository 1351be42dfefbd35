"""Reads the usual ACK by hand: individual acknowledgements of whole entries, without an answer.

    type=10  ack, length   consumer_id  ack_type=0  message_id{ledgerId, entryId}, …
    08 0a    52 nn         08 …         10 00       1a nn 08 … 10 …

Consumers of Shared subscriptions acknowledge every message by its id. With protobuf each id costs an object, and more
for each of its fields. Any other ACK (cumulative, in a transaction, with a request id, of a part of a batch) is not
plain, and is parsed like all other commands. What is plain must mean the same to protobuf.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import short_varint_at
from pulsar_proto.wire.id_list import PORTION_BYTES

PLAIN_ACK_PREFIX = b"\x08\x0a\x52"
"""How every client begins an ACK: field 1 (type) with the value 10, then the tag of field 10."""

Ack = tuple[int, int, Sequence[int] | None]
"""What is acknowledged: (ledger id, entry id, the words of an ack set or None for the whole entry)."""

_FIRST: Final = 0x08
_SECOND: Final = 0x10
_ID: Final = 0x1A
"""The tags of the first two fields, which are numbers, and of CommandAck.message_id."""
_INDIVIDUAL: Final = 0
"""CommandAck.AckType.Individual."""


def plain_ack(data: bytes) -> tuple[int, list[Ack]] | None:
    """Returns (consumer id, what is acknowledged) of a plain ACK, and None for all other bytes. A list of ids that has
    to be cut (`id_list`) is not plain."""
    end = len(data)
    if end > PORTION_BYTES or not data.startswith(PLAIN_ACK_PREFIX):
        return None
    size, at = short_varint_at(data, len(PLAIN_ACK_PREFIX), end)
    if at + size != end or at >= end or data[at] != _FIRST:
        return None
    consumer_id, at = short_varint_at(data, at + 1, end)
    if consumer_id < 0 or at + 2 > end or data[at] != _SECOND or data[at + 1] != _INDIVIDUAL:
        return None
    at += 2
    acks: list[Ack] = []
    while at < end:
        if data[at] != _ID:
            return None
        size, at = short_varint_at(data, at + 1, end)
        stop = at + size
        if not at < stop <= end or data[at] != _FIRST:
            return None
        ledger_id, at = short_varint_at(data, at + 1, stop)
        if ledger_id < 0 or at >= stop or data[at] != _SECOND:
            return None
        entry_id, at = short_varint_at(data, at + 1, stop)
        if entry_id < 0 or at != stop:
            return None
        acks.append((ledger_id, entry_id, None))
    return consumer_id, acks


def acks_of(message_ids: Iterable[pb.MessageIdData]) -> list[Ack]:
    """Returns what an individual ACK with these ids acknowledges."""
    return [(each.ledgerId, each.entryId, each.ack_set or None) for each in message_ids]
