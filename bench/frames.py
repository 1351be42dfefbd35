"""Pre-encoded SEND frames and scanners of answers: all that the raw driver does per message. No I/O.

A `Block` is a run of SEND frames in one bytes object that is sent again and again. The sequence ids repeat with it,
which a broker without deduplication accepts. Scanners find the frames by their lengths and compare a few bytes of each.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compat_tests import wire

BLOCK_BYTES_MAX = 4 << 20
FIRST_SEQUENCE = 1 << 14
"""From this number up to 2^21 a sequence id takes three bytes, so that receipts can be compared at a fixed offset."""

PRODUCER_ID = 1
CONSUMER_ID = 1
PRODUCER_NAME = "bench"
PUBLISH_TIME_MS = 1_700_000_000_000
RECEIPT_TYPE = b"\x08\x07"
MESSAGE_TYPE = b"\x08\x09"


class DriverError(Exception):
    """The server answered something that the driver did not ask for."""


@dataclass(frozen=True, slots=True)
class Block:
    """`frames` SEND frames of `per_frame` messages each; frame k is `data[offsets[k]:offsets[k + 1]]`."""

    data: bytes
    offsets: Sequence[int]
    per_frame: int
    payloads: Sequence[bytes] = field(repr=False)

    @property
    def frames(self) -> int:
        return len(self.offsets) - 1

    def sequence(self, frame: int) -> int:
        return FIRST_SEQUENCE + frame % self.frames


def build_block(message_bytes: int, per_frame: int, seed: int = 1) -> Block:
    """Makes a block of messages of random bytes; with `per_frame` > 1 each frame is one batch of that many. The same
    arguments give the same bytes."""
    generator = random.Random(seed)
    frames: list[bytes] = []
    payloads: list[bytes] = []
    count = max(8, min(2048, BLOCK_BYTES_MAX // (message_bytes * per_frame)))
    for index in range(count):
        sequence = FIRST_SEQUENCE + index
        metadata: list[wire.Field] = [(1, PRODUCER_NAME), (2, sequence), (3, PUBLISH_TIME_MS)]
        command: list[wire.Field] = [(1, PRODUCER_ID), (2, sequence)]
        if per_frame == 1:
            body = generator.randbytes(message_bytes)
        else:
            body = b"".join(single_message(generator.randbytes(message_bytes)) for _ in range(per_frame))
            metadata += [(11, per_frame)]
            command += [(3, per_frame)]
        payloads.append(wire.payload(metadata, body))
        frames.append(wire.frame(wire.SEND, command, payloads[-1]))
    offsets = [0]
    for frame in frames:
        offsets.append(offsets[-1] + len(frame))
    return Block(b"".join(frames), offsets, per_frame, payloads)


def single_message(body: bytes) -> bytes:
    """Returns one message of a batch: the length of its SingleMessageMetadata, the metadata, then the body."""
    metadata = wire.encode([(3, len(body))])
    return len(metadata).to_bytes(4, "big") + metadata + body


class Scanner:
    """Cuts the stream into frames. `other` gets the command and fields of each frame that is not of the expected
    kind."""

    def __init__(self, other: Callable[[int, wire.Message], None]) -> None:
        self._rest = b""
        self._other = other

    def _scan(self, read: bytes, kind: bytes, handle: Callable[[bytes, int, int], None]) -> None:
        """Calls `handle(data, at, following)` for each whole frame of a kind, which is `data[at:following]`."""
        data = self._rest + read if self._rest else read
        at, end = 0, len(data)
        while end - at >= 12:
            following = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if following > end:
                break
            if data[at + 8 : at + 10] == kind:
                handle(data, at, following)
            else:
                self._handle_other(data, at)
            at = following
        self._rest = data[at:]

    def _handle_other(self, data: bytes, at: int) -> None:
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        base = wire.decode(data[at + 8 : at + 8 + size])
        kind = wire.number(base, 1)
        self._other(kind, wire.decode(wire.blob(base, kind)))


class ReceiptScanner(Scanner):
    """Counts SEND_RECEIPTs and checks that each is the next one expected."""

    def __init__(self, block: Block, other: Callable[[int, wire.Message], None]) -> None:
        super().__init__(other)
        self.count = 0
        self._frames = block.frames
        self._expected = [wire.encode([(1, PRODUCER_ID), (2, block.sequence(frame))]) for frame in range(block.frames)]
        self._width = len(self._expected[0])

    def feed(self, read: bytes) -> int:
        """Returns the number of receipts in a read. Raises DriverError for one out of order."""
        data = self._rest + read if self._rest else read
        at, end, before = 0, len(data), self.count
        expected, frames, width, count = self._expected, self._frames, self._width, self.count
        while end - at >= 12:
            following = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if following > end:
                break
            if data[at + 8 : at + 10] != RECEIPT_TYPE:
                self._handle_other(data, at)
            elif data[at + 12 : at + 12 + width] == expected[count % frames]:
                count += 1
            else:
                raise DriverError(f"receipt {count} is out of order: {data[at:following].hex()}")
            at = following
        self._rest = data[at:]
        self.count = count
        return count - before


class MessageScanner(Scanner):
    """Counts MESSAGE frames and checks that entries ascend and payloads are those of the block, in order."""

    def __init__(self, block: Block, other: Callable[[int, wire.Message], None]) -> None:
        super().__init__(other)
        self.count = 0
        self.last = (-1, -1)
        self._payloads = block.payloads

    def feed(self, read: bytes) -> int:
        """Returns the number of entries in a read. Raises DriverError for one out of order or changed."""
        before = self.count
        self._scan(read, MESSAGE_TYPE, self._message)
        return self.count - before

    def _message(self, data: bytes, at: int, following: int) -> None:
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        place = message_place(data, at + 8)
        if place <= self.last:
            raise DriverError(f"entry {place} came after {self.last}")
        if data[at + 8 + size : following] != self._payloads[self.count % len(self._payloads)]:
            raise DriverError(f"entry {place}, number {self.count}, is not what was sent")
        self.last = place
        self.count += 1


def message_place(data: bytes, at: int) -> tuple[int, int]:
    """Returns (ledger, entry) of a MESSAGE command, whose bytes are 08 09 4a LEN 08 consumer 12 LEN 08 ledger 10 entry,
    in this order."""
    at += 3
    _, at = wire.decode_varint(data, at)
    _, at = wire.decode_varint(data, at + 1)
    _, at = wire.decode_varint(data, at + 1)
    ledger, at = wire.decode_varint(data, at + 1)
    entry, _ = wire.decode_varint(data, at + 1)
    return ledger, entry
