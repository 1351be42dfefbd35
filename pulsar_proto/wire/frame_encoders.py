"""Encoders of the frames that a broker sends once per message: SEND_RECEIPT, the head of MESSAGE, and ACK_RESPONSE.

The frames are put together by hand, because building and serializing a BaseCommand costs several microseconds; tests
hold their bytes equal to protobuf's.

Ids mostly grow by one. A varint has the low seven bits of an id in its first byte, so from frame to frame only that
byte changes, and all ids of one block (those with the same `id >> 7`) share every other byte of the frame. The receipt
of sequence id 1001 at ledger 12, entry 300:

    00 00 00 14 00 00 00 10 08 07 3a 0c 08 01 10    e9    07 1a 05 08 0c 10    ac    02
    prefix: both sizes of the frame, the type,      |     middle: the other    |     rest: the other
    tag and size of the receipt, producer_id 1,     |     byte of 1001, tag    |     byte of 300
    the tag of sequence_id                          |     and size of the      |
                                                    |     message id, ledger   first byte of 300
                                                    |     12, tag of entryId
                                                    first byte of 1001

Invariant: prefix, middle and rest belong to the blocks and the ledger that the encoder remembers (`_sequence_block`,
`_entry_block`, `_ledger_id`). A frame is put together from these parts only after the remembered values were compared
with the ids at hand; when one differs, `_prepare` makes the parts anew. The sizes in the prefix hold for all ids of the
block, because these have equally many bytes: a first byte from the table, and the same other bytes. An id of block 0 is
its first byte alone; that is why there are two tables, `CONTINUED_BYTE` and `LAST_BYTE`. Negative ids (-1 in a
duplicate's receipt) work like others, since they are taken modulo 2^64 and `-1 >> 7` is -1, a block of its own.
"""

from collections.abc import Iterable, Sequence
from struct import Struct

from pulsar_proto.varint import CONTINUED_BYTE, LAST_BYTE, U64_MASK, varint

_SIZES = Struct(">II").pack
_NO_BLOCK = -(2**64)

Receipt = tuple[int, int | None]
"""The pair (sequence_id, highest_sequence_id or None), with the values of the SEND."""


def _block(value: int) -> tuple[tuple[bytes, ...], bytes]:
    """Returns what all ids with the same `id >> 7` share: the table of first bytes (by `id & 127`), and the bytes that
    follow the first one."""
    block = (value & U64_MASK) >> 7
    return (CONTINUED_BYTE, varint(block)) if block else (LAST_BYTE, b"")


class ReceiptEncoder:
    """Makes the SEND_RECEIPT frames of one producer.

    A receipt holds producer_id, sequence_id, message_id{ledgerId, entryId} and, when the SEND had it,
    highest_sequence_id. Both sequence ids go back untouched: C++ and Go clients compare them with what they sent
    (Commands.newSendReceiptCommand).
    """

    __slots__ = (
        "_entry_block",
        "_entry_rest",
        "_entry_table",
        "_ledger_id",
        "_middle",
        "_prefix",
        "_producer",
        "_sequence_block",
        "_sequence_table",
    )

    def __init__(self, producer_id: int) -> None:
        self._producer = b"\x08" + varint(producer_id) + b"\x10"
        self._ledger_id = self._sequence_block = self._entry_block = _NO_BLOCK
        self._sequence_table = self._entry_table = LAST_BYTE
        self._prefix = self._middle = self._entry_rest = b""

    def encode(self, sequence_id: int, highest_sequence_id: int | None, ledger_id: int, entry_id: int) -> bytes:
        """Returns one whole frame. Ids of -1, as a duplicate's receipt has, become 2^64-1, as in Java."""
        if highest_sequence_id is not None:
            return self._with_highest(sequence_id, highest_sequence_id, ledger_id, entry_id)
        if (
            sequence_id >> 7 != self._sequence_block
            or entry_id >> 7 != self._entry_block
            or ledger_id != self._ledger_id
        ):
            self._prepare(sequence_id, ledger_id, entry_id)
        return b"".join(
            (
                self._prefix,
                self._sequence_table[sequence_id & 127],
                self._middle,
                self._entry_table[entry_id & 127],
                self._entry_rest,
            )
        )

    def encode_run(self, receipts: Iterable[Receipt], ledger_id: int, first_entry_id: int) -> bytes:
        """Returns the frames of consecutive entries of one ledger, joined.

        The loop keeps the current blocks in local variables, which saves the look-ups of `encode` for each receipt.
        """
        parts: list[bytes] = []
        if ledger_id != self._ledger_id:
            self._sequence_block = _NO_BLOCK  # so that the first receipt prepares the parts for this ledger
        sequence_block, entry_block = self._sequence_block, self._entry_block
        sequence_table, entry_table = self._sequence_table, self._entry_table
        prefix, middle, entry_rest = self._prefix, self._middle, self._entry_rest
        entry_id = first_entry_id
        for sequence_id, highest in receipts:
            if highest is not None:
                parts.append(self._with_highest(sequence_id, highest, ledger_id, entry_id))
            else:
                if sequence_id >> 7 != sequence_block or entry_id >> 7 != entry_block:
                    self._prepare(sequence_id, ledger_id, entry_id)
                    sequence_block, entry_block = self._sequence_block, self._entry_block
                    sequence_table, entry_table = self._sequence_table, self._entry_table
                    prefix, middle, entry_rest = self._prefix, self._middle, self._entry_rest
                parts += (prefix, sequence_table[sequence_id & 127], middle, entry_table[entry_id & 127], entry_rest)
            entry_id += 1
        return b"".join(parts)

    def _prepare(self, sequence_id: int, ledger_id: int, entry_id: int) -> None:
        self._sequence_table, sequence_rest = _block(sequence_id)
        self._entry_table, self._entry_rest = _block(entry_id)
        ledger = b"\x08" + varint(ledger_id) + b"\x10"
        message_id_size = len(ledger) + 1 + len(self._entry_rest)
        self._middle = sequence_rest + b"\x1a" + LAST_BYTE[message_id_size] + ledger
        receipt_size = len(self._producer) + 1 + len(self._middle) + 1 + len(self._entry_rest)
        self._prefix = _receipt_head(receipt_size) + self._producer
        self._sequence_block = sequence_id >> 7
        self._entry_block = entry_id >> 7
        self._ledger_id = ledger_id

    def _with_highest(self, sequence_id: int, highest_sequence_id: int, ledger_id: int, entry_id: int) -> bytes:
        message_id = b"\x08" + varint(ledger_id) + b"\x10" + varint(entry_id)
        parts = (
            varint(sequence_id),
            b"\x1a",
            LAST_BYTE[len(message_id)],
            message_id,
            b"\x20",
            varint(highest_sequence_id),
        )
        receipt = self._producer + b"".join(parts)
        return _receipt_head(len(receipt)) + receipt


def _receipt_head(receipt_size: int) -> bytes:
    """Returns the frame's sizes and the opening of the BaseCommand.

    A receipt has at most 70 bytes (its largest ids have ten bytes each), so that its length is a varint of one byte.
    """
    return _SIZES(receipt_size + 8, receipt_size + 4) + b"\x08\x07\x3a" + LAST_BYTE[receipt_size]


def ack_response_frame(consumer_id: int, request_id: int) -> bytes:
    """Returns the answer to an ACK that succeeded."""
    request = varint(request_id)
    return _ack_response_head(consumer_id, len(request)) + request


def ack_response_frames(consumer_id: int, request_ids: Iterable[int]) -> bytes:
    """Returns the answers to several ACKs of one consumer that succeeded."""
    frames: list[bytes] = []
    head, size = b"", 0
    for request_id in request_ids:
        request = varint(request_id)
        if len(request) != size:
            size = len(request)
            head = _ack_response_head(consumer_id, size)
        frames.append(head)
        frames.append(request)
    return b"".join(frames)


def _ack_response_head(consumer_id: int, size: int) -> bytes:
    """Returns what stands before the request id of `size` bytes, which ends the frame. With two ids of at most ten
    bytes, all lengths are varints of one byte."""
    response = b"\x08%b\x30" % varint(consumer_id)
    size += len(response)
    return b"%b\x08\x26\xb2\x02%b%b" % (_SIZES(size + 9, size + 5), LAST_BYTE[size], response)


def transaction_response_frame(command_type: int, request_id: int, least: int, most: int) -> bytes:
    """Returns the answer to a command of a transaction that succeeded, all of which have these three fields. The number
    of the command's type, which is less than 128, is also the number of its field. With three ids of at most ten bytes,
    the length of the field is a varint of one byte."""
    response = b"\x08%b\x10%b\x18%b" % (varint(request_id), varint(least), varint(most))
    command = b"\x08%b%b%b%b" % (
        LAST_BYTE[command_type],
        varint(command_type << 3 | 2),
        LAST_BYTE[len(response)],
        response,
    )
    return _SIZES(len(command) + 4, len(command)) + command


class MessageFramer:
    """Makes the heads of one consumer's MESSAGE frames: all bytes before the stored payload."""

    __slots__ = (
        "_command_size",
        "_consumer",
        "_entry_block",
        "_entry_table",
        "_head",
        "_ledger_id",
        "_partition",
        "_tail",
    )

    def __init__(self, consumer_id: int, partition: int = -1) -> None:
        """`partition` is the topic's partition index, -1 for none. Java's broker sends the field also when it is -1,
        and this encoder does so too."""
        self._consumer = b"\x08" + varint(consumer_id) + b"\x12"
        self._partition = partition
        self._ledger_id = self._entry_block = _NO_BLOCK
        self._entry_table = LAST_BYTE
        self._head = self._tail = b""
        self._command_size = 0

    def head(
        self,
        ledger_id: int,
        entry_id: int,
        payload_len: int,
        redelivery_count: int = 0,
        ack_set: Sequence[int] = (),
        consumer_epoch: int | None = None,
    ) -> bytes:
        """Returns the head of a frame; `payload_len` bytes follow it, the stored payload from 0x0e01 (or metadataSize)
        on.

        `ack_set` holds the words of the batch's BitSet, where 1 means "still to be consumed"; it is empty when no
        message of the entry was acknowledged. `consumer_epoch` is for Exclusive and Failover subscriptions only.
        """
        if redelivery_count or ack_set or consumer_epoch is not None:
            return self._general(ledger_id, entry_id, payload_len, redelivery_count, ack_set, consumer_epoch)
        if entry_id >> 7 != self._entry_block or ledger_id != self._ledger_id:
            self._prepare(ledger_id, entry_id)
        command_size = self._command_size
        return (
            _SIZES(command_size + 4 + payload_len, command_size)
            + self._head
            + self._entry_table[entry_id & 127]
            + self._tail
        )

    def frames(self, ledger_id: int, entry_ids: Iterable[int], payloads: Iterable[bytes]) -> list[bytes]:
        """Returns heads and payloads in turn, for entries that are sent for the first time and whole."""
        chunks: list[bytes] = []
        append = chunks.append
        size = -1
        for entry_id, payload in zip(entry_ids, payloads, strict=True):
            if entry_id >> 7 != self._entry_block or ledger_id != self._ledger_id:
                self._prepare(ledger_id, entry_id)
                size = -1
            if len(payload) != size:  # many payloads have the length of the payload before them
                size = len(payload)
                begin = _SIZES(self._command_size + 4 + size, self._command_size) + self._head
            append(begin + self._entry_table[entry_id & 127] + self._tail)
            append(payload)
        return chunks

    def _prepare(self, ledger_id: int, entry_id: int) -> None:
        self._entry_table, entry_rest = _block(entry_id)
        self._tail = entry_rest + b"\x18" + varint(self._partition)
        ledger = b"\x08" + varint(ledger_id) + b"\x10"
        message_id_size = len(ledger) + 1 + len(self._tail)
        message_size = len(self._consumer) + 1 + message_id_size
        self._head = b"\x08\x09\x4a" + LAST_BYTE[message_size] + self._consumer + LAST_BYTE[message_id_size] + ledger
        self._command_size = 4 + message_size
        self._entry_block = entry_id >> 7
        self._ledger_id = ledger_id

    def _general(
        self,
        ledger_id: int,
        entry_id: int,
        payload_len: int,
        redelivery_count: int,
        ack_set: Sequence[int],
        consumer_epoch: int | None,
    ) -> bytes:
        message_id = b"\x08%b\x10%b\x18%b" % (varint(ledger_id), varint(entry_id), varint(self._partition))
        parts = [self._consumer, LAST_BYTE[len(message_id)], message_id]
        if redelivery_count:
            parts += (b"\x18", varint(redelivery_count))
        for word in ack_set:
            parts += (b"\x20", varint(word))
        if consumer_epoch is not None:
            parts += (b"\x28", varint(consumer_epoch))
        message = b"".join(parts)
        body = b"\x08\x09\x4a%b%b" % (varint(len(message)), message)
        return _SIZES(len(body) + 4 + payload_len, len(body)) + body
