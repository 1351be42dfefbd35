"""Reads the usual ACKs by hand: individual acknowledgements of whole entries, without an answer, and in a transaction
those of one whole entry each, with an answer.

    type=10  ack, length   consumer_id  ack_type=0  message_id{ledgerId, entryId}, …
    08 0a    52 nn         08 …         10 00       1a nn 08 … 10 …

    in a transaction:      … message_id{…}  txnid_least_bits  txnid_most_bits  request_id
                                            30 …              38 …             40 …

Consumers of Shared subscriptions acknowledge every message by its id. With protobuf each id costs an object, and more
for each of its fields. In a transaction Java's client acknowledges each message by a command of its own; the commands
that come together are read as one. Any other ACK (cumulative, with an answer, of a part of a batch) is parsed like all
other commands. What is read by hand must mean the same to protobuf.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import short_varint_at
from pulsar_proto.wire.framing import Frame
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
_BODY_AT: Final = 4
_LEAST: Final = 0x30
_MOST: Final = 0x38
_REQUEST: Final = 0x40
"""The tags of the fields of CommandAck that follow the ids in a transaction."""
TOGETHER_MAX: Final = 200
"""How many ACKs of a transaction are read as one."""


class AcksInTransaction:
    """Individual ACKs of whole entries that one consumer has sent in one transaction."""

    __slots__ = ("consumer_id", "entries", "request_ids", "txn_id")

    def __init__(self, consumer_id: int, txn_id: TxnId) -> None:
        self.consumer_id = consumer_id
        self.txn_id = txn_id
        self.entries: list[tuple[int, int]] = []
        """The (ledger id, entry id) of each ACK."""
        self.request_ids: list[int] = []
        """The request id of each ACK."""


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


def acks_in_transaction(frames: Sequence[Frame], start: int) -> AcksInTransaction | None:
    """Returns the ACKs of one transaction that begin with the frame at `start` and follow one another. Returns None
    when that frame has any other command."""
    acks: AcksInTransaction | None = None
    consumer_id = least = most = -1
    for index in range(start, min(len(frames), start + TOGETHER_MAX)):
        data = frames[index][0]
        end = len(data)
        if not _BODY_AT < end < _BODY_AT + 128 or data[3] != end - _BODY_AT or not data.startswith(PLAIN_ACK_PREFIX):
            break
        consumer, at = _field(data, _FIRST, _BODY_AT, end)
        kind, at = _field(data, _SECOND, at, end)
        size, at = _field(data, _ID, at, end)
        stop = at + size
        if kind != _INDIVIDUAL or not at < stop < end:
            break
        ledger_id, at = _field(data, _FIRST, at, stop)
        entry_id, at = _field(data, _SECOND, at, stop)
        if at != stop:
            break
        of_least, at = _field(data, _LEAST, at, end)
        of_most, at = _field(data, _MOST, at, end)
        request_id, at = _field(data, _REQUEST, at, end)
        if at != end or min(consumer, ledger_id, entry_id, of_least, of_most, request_id) < 0:
            break
        if acks is None:
            consumer_id, least, most = consumer, of_least, of_most
            acks = AcksInTransaction(consumer, TxnId(most, least))
        elif consumer != consumer_id or of_least != least or of_most != most:
            break
        acks.entries.append((ledger_id, entry_id))
        acks.request_ids.append(request_id)
    return acks


def _field(data: bytes, tag: int, at: int, end: int) -> tuple[int, int]:
    """Returns the number of the field at `at` and where the field ends, or (-1, at) when there is another field. The
    number is -1 as well when `short_varint_at` cannot read it."""
    if at >= end or data[at] != tag:
        return -1, at
    return short_varint_at(data, at + 1, end)


def acks_of(message_ids: Iterable[pb.MessageIdData]) -> list[Ack]:
    """Returns what an individual ACK with these ids acknowledges."""
    return [(each.ledgerId, each.entryId, each.ack_set or None) for each in message_ids]
