"""Encoders of the two frames that a broker sends once per message: SEND_RECEIPT and the head of MESSAGE.

Encoded by hand, because building a BaseCommand costs several microseconds; tests hold them equal to protobuf's bytes.
Both rely on ids that mostly grow by one: only the low seven bits (a varint's first byte) change from frame to frame,
so everything else is kept ready for the current block of 128 ids.
"""

from collections.abc import Iterable, Sequence
from struct import Struct

from pulsar_proto.varint import CONTINUED_BYTE, LAST_BYTE, U64_MASK, varint

_SIZES = Struct(">II").pack
_NO_BLOCK = -(2**64)

Receipt = tuple[int, int | None]
"""(sequence_id, highest_sequence_id or None), as SEND gave them."""


def _block(value: int) -> tuple[tuple[bytes, ...], bytes]:
    """For all ids with the same `id >> 7`: the table of first bytes (by `id & 127`) and the bytes after it."""
    block = (value & U64_MASK) >> 7
    return (CONTINUED_BYTE, varint(block)) if block else (LAST_BYTE, b"")


class ReceiptEncoder:
    """SEND_RECEIPT frames of one producer: {producer_id, sequence_id, message_id{ledgerId, entryId}} and, where SEND
    had it, highest_sequence_id, both sequence ids untouched (facts 4.2)."""

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
        """One whole frame. Ids of -1 (a duplicate's receipt) are encoded as Java does, as 2^64-1."""
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
        """The frames of consecutive entries of one ledger, joined."""
        parts: list[bytes] = []
        sequence_block = entry_block = _NO_BLOCK
        sequence_table = entry_table = LAST_BYTE
        prefix = middle = entry_rest = b""
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
    """Frame sizes and the BaseCommand's opening. A receipt takes at most 70 bytes, so its length is one byte."""
    return _SIZES(receipt_size + 8, receipt_size + 4) + b"\x08\x07\x3a" + LAST_BYTE[receipt_size]


class MessageFramer:
    """Everything of MESSAGE frames before the stored payload, for one consumer."""

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
        """`partition`: the topic's partition index, -1 for none; Java always sends it."""
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
        """The frame is this and then `payload_len` bytes: the stored payload from 0x0e01 (or metadataSize) on.

        `ack_set`: words of the batch's BitSet, 1 = still to be consumed; empty = all. `consumer_epoch` is for Exclusive
        and Failover only (facts 5.3).
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
        """Heads and payloads in turn, of entries that are sent the first time and whole."""
        chunks: list[bytes] = []
        append = chunks.append
        size = -1
        for entry_id, payload in zip(entry_ids, payloads, strict=True):
            if entry_id >> 7 != self._entry_block or ledger_id != self._ledger_id:
                self._prepare(ledger_id, entry_id)
                size = -1
            if len(payload) != size:  # many are as long as the one before
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
