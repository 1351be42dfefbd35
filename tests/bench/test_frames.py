"""The raw driver's scanners reject whatever comes out of order or changed, however the stream is cut into reads."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.frames import (
    CONSUMER_ID,
    FIRST_SEQUENCE,
    PRODUCER_ID,
    Block,
    DriverError,
    MessageScanner,
    ReceiptScanner,
    build_block,
)
from compat_tests import wire

BLOCK = build_block(100, 1)
BATCHES = build_block(10, 5)


def receipts(block: Block, count: int) -> bytes:
    return b"".join(receipt(block.sequence(frame), frame) for frame in range(count))


def receipt(sequence: int, entry: int) -> bytes:
    return wire.frame(wire.SEND_RECEIPT, [(1, PRODUCER_ID), (2, sequence), (3, [(1, 7), (2, entry)]), (4, sequence)])


MANY_RECEIPTS = receipts(BLOCK, BLOCK.frames + 10)


def message(block: Block, entry: int) -> bytes:
    payload = block.payloads[entry % block.frames]
    return wire.frame(wire.MESSAGE, [(1, CONSUMER_ID), (2, [(1, 300), (2, entry)])], payload)


def unexpected(kind: int, fields: wire.Message) -> None:
    raise AssertionError(f"command {kind}: {fields}")


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(each % len(data) for each in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


@pytest.mark.parametrize("block", [BLOCK, BATCHES], ids=["single", "batched"])
def test_a_block_is_made_of_sends_with_sound_payloads(block: Block) -> None:
    for index in range(block.frames):
        frame = block.data[block.offsets[index] : block.offsets[index + 1]]
        assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
        size = int.from_bytes(frame[4:8], "big")
        send = wire.decode(wire.blob(wire.decode(frame[8 : 8 + size]), wire.SEND))
        assert wire.number(send, 2) == FIRST_SEQUENCE + index
        assert wire.number(send, 3, default=1) == block.per_frame
        body = frame[8 + size :]
        assert body == block.payloads[index]
        assert body[:6] == wire.payload([], b"")[:2] + wire.crc32c(body[6:]).to_bytes(4, "big")


def test_the_same_arguments_make_the_same_block() -> None:
    assert build_block(100, 1) == BLOCK


@settings(deadline=None)
@given(st.lists(st.integers(0, 1 << 20), max_size=20))
def test_receipts_are_counted_however_they_are_cut(cuts: list[int]) -> None:
    scanner = ReceiptScanner(BLOCK, unexpected)
    assert sum(scanner.feed(part) for part in cut(MANY_RECEIPTS, cuts)) == BLOCK.frames + 10


@settings(deadline=None)
@given(st.lists(st.integers(0, 1 << 20), max_size=20))
def test_messages_are_counted_however_they_are_cut(cuts: list[int]) -> None:
    scanner = MessageScanner(BATCHES, unexpected)
    data = b"".join(message(BATCHES, entry) for entry in range(30))
    assert sum(scanner.feed(part) for part in cut(data, cuts)) == 30
    assert scanner.last == (300, 29)


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0), (0, 0), (0, 1, 3)])
def test_a_receipt_out_of_order_is_an_error(order: tuple[int, ...]) -> None:
    scanner = ReceiptScanner(BLOCK, unexpected)
    with pytest.raises(DriverError, match="out of order"):
        scanner.feed(b"".join(receipt(BLOCK.sequence(frame), frame) for frame in order))


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0), (0, 0), (0, 2)])
def test_a_message_out_of_order_is_an_error(order: tuple[int, ...]) -> None:
    scanner = MessageScanner(BLOCK, unexpected)
    with pytest.raises(DriverError, match=r"came after|is not what was sent"):
        scanner.feed(b"".join(message(BLOCK, entry) for entry in order))


def test_a_changed_message_is_an_error() -> None:
    data = bytearray(message(BLOCK, 0))
    data[-1] ^= 1
    with pytest.raises(DriverError, match="is not what was sent"):
        MessageScanner(BLOCK, unexpected).feed(bytes(data))


def test_other_commands_are_handed_over() -> None:
    others: list[int] = []
    scanner = ReceiptScanner(BLOCK, lambda kind, _: others.append(kind))
    ping = wire.frame(wire.PING, [])
    assert scanner.feed(ping + receipts(BLOCK, 2) + ping + receipts(BLOCK, 3)[len(receipts(BLOCK, 2)) :]) == 3
    assert others == [wire.PING, wire.PING]
