"""The raw driver's frames stay whole on the wire, whatever is sent between them."""

import socket

from bench.driver import BlockSender
from bench.frames import build_block
from compat_tests import wire

BLOCK = build_block(100_000, 1)
PONG = wire.frame(wire.PONG, [])


class Pair:
    """A connection to nobody, whose other end reads when it is told to."""

    def __init__(self) -> None:
        self.socket, self.peer = socket.socketpair()
        for each in (self.socket, self.peer):
            each.setblocking(False)

    def arrived(self) -> bytes:
        arrived = bytearray()
        while True:
            try:
                arrived += self.peer.recv(1 << 20)
            except BlockingIOError:
                return bytes(arrived)


def sent_whole(sender: BlockSender, pair: Pair, frames: int) -> bytes:
    """Lets the other end read until so many frames were sent, and returns what it has read."""
    arrived = pair.arrived()
    while sender.sent < frames:
        sender.send(frames)
        arrived += pair.arrived()
    return arrived


def frames_of(first: int, end: int) -> bytes:
    return b"".join(BLOCK.data[BLOCK.offsets[k] : BLOCK.offsets[k + 1]] for k in range(first, end))


def test_a_pong_that_is_due_within_a_frame_follows_that_frame() -> None:
    pair = Pair()
    sender = BlockSender(pair, BLOCK.data, BLOCK.offsets)
    while sender.send(BLOCK.frames):
        continue
    half_sent = sender.sent
    assert 0 < half_sent < BLOCK.frames, "the socket takes some frames and not all of them"
    sender.put_between(PONG)
    arrived = sent_whole(sender, pair, BLOCK.frames)
    assert arrived == frames_of(0, half_sent + 1) + PONG + frames_of(half_sent + 1, BLOCK.frames)


def test_a_pong_between_two_frames_is_sent_at_once() -> None:
    pair = Pair()
    sender = BlockSender(pair, BLOCK.data, BLOCK.offsets)
    sender.put_between(PONG)
    assert pair.arrived() == PONG
    assert sent_whole(sender, pair, 1) == frames_of(0, 1)
    sender.put_between(PONG)
    assert pair.arrived() == PONG


def test_a_block_begins_again_behind_its_last_frame() -> None:
    pair = Pair()
    sender = BlockSender(pair, BLOCK.data, BLOCK.offsets)
    arrived = sent_whole(sender, pair, BLOCK.frames)
    sender.put_between(PONG)
    arrived += sent_whole(sender, pair, BLOCK.frames + 1)
    assert arrived == BLOCK.data + PONG + frames_of(0, 1)
