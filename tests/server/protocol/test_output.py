"""The writing side of a connection keeps the order, writes once a turn, and obeys the water marks."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.protocol.output import (
    JOIN_BELOW_BYTES,
    OUTPUT_HIGH_WATER_BYTES,
    OUTPUT_LOW_WATER_BYTES,
    OUTPUT_MAX_BYTES,
    Output,
    join_small,
)
from tests.server.fake_transport import FakeTransport


class Owner(asyncio.Protocol):
    """Takes the part of the connection: passes the transport's calls to the output, and remembers the output's
    calls."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.transport.set_protocol(self)
        self.writable: list[bool] = []
        self.cut_off: list[str] = []
        self.sent: list[int] = []
        self.output = Output(
            asyncio.get_running_loop(),
            self.transport,
            self.writable.append,
            self.cut_off.append,
            lambda _, size: self.sent.append(size),
        )

    def pause_writing(self) -> None:
        self.output.pause()

    def resume_writing(self) -> None:
        self.output.resume()


async def test_what_is_written_in_one_turn_leaves_in_one_write() -> None:
    owner = Owner()
    owner.output.write(b"a")
    owner.output.write_frames([b"b", b"c"])
    owner.output.write_frames([])
    assert owner.transport.calls == []
    await asyncio.sleep(0)
    assert owner.transport.calls == [3]
    owner.output.write(b"d")
    await asyncio.sleep(0)
    assert owner.transport.taken == b"abcd"


async def test_large_chunks_are_not_copied_and_small_neighbours_are_joined() -> None:
    owner = Owner()
    large = bytes(JOIN_BELOW_BYTES)
    owner.output.write_frames([b"a", b"b", large, b"c", b"d"])
    await asyncio.sleep(0)
    assert owner.transport.calls == [2, JOIN_BELOW_BYTES, 2]


@given(st.lists(st.sampled_from([0, 1, 2, JOIN_BELOW_BYTES - 1, JOIN_BELOW_BYTES])))
def test_joining_keeps_every_byte_in_order_and_large_chunks_as_they_are(sizes: list[int]) -> None:
    chunks = [bytes([index % 256]) * size for index, size in enumerate(sizes)]
    joined = join_small(chunks)
    assert b"".join(joined) == b"".join(chunks)
    kept = {id(piece) for piece in joined}
    assert all(id(chunk) in kept for chunk in chunks if len(chunk) == JOIN_BELOW_BYTES)


async def test_not_writable_above_the_high_water_mark_and_again_below_the_low_one() -> None:
    owner = Owner()
    owner.transport.blocked = True
    owner.output.write(bytes(OUTPUT_HIGH_WATER_BYTES + 1))
    assert not owner.output.is_writable, "also within the turn"
    called: list[str] = []
    owner.output.when_writable(lambda: called.append("back"))
    await asyncio.sleep(0)
    assert not owner.output.is_writable
    assert owner.writable == [False]
    owner.transport.take(OUTPUT_HIGH_WATER_BYTES - OUTPUT_LOW_WATER_BYTES)
    assert called == []
    owner.transport.take(1)
    assert called == ["back"]
    assert owner.output.is_writable
    assert owner.writable == [False, True]


async def test_a_waiter_is_called_after_the_turn_when_the_peer_took_everything() -> None:
    owner = Owner()
    owner.output.write(bytes(OUTPUT_HIGH_WATER_BYTES))
    called: list[str] = []
    owner.output.when_writable(lambda: called.append("back"))
    assert called == []
    await asyncio.sleep(0)
    assert called == ["back"]
    await asyncio.sleep(0)
    assert called == ["back"], "once"


async def test_a_waiter_on_a_writable_output_is_called_in_the_next_turn() -> None:
    owner = Owner()
    called: list[str] = []
    owner.output.when_writable(lambda: called.append("back"))
    assert called == []
    await asyncio.sleep(0)
    assert called == ["back"]


async def test_a_peer_that_takes_nothing_reaches_the_hard_bound() -> None:
    owner = Owner()
    owner.transport.blocked = True
    for _ in range(OUTPUT_MAX_BYTES // OUTPUT_HIGH_WATER_BYTES):
        owner.output.write(bytes(OUTPUT_HIGH_WATER_BYTES))
        owner.output.flush()
    assert owner.cut_off == []
    owner.output.write(b"x")
    owner.output.flush()
    assert owner.cut_off == [f"does not read: {OUTPUT_MAX_BYTES + 1} bytes wait for it"]


async def test_taken_bytes_grow_only_while_the_peer_reads() -> None:
    owner = Owner()
    owner.transport.blocked = True
    owner.output.write(bytes(1000))
    owner.output.flush()
    assert (owner.output.taken_bytes, owner.output.held_bytes) == (0, 1000)
    owner.transport.take(400)
    assert (owner.output.taken_bytes, owner.output.held_bytes) == (400, 600)


async def test_nothing_is_written_to_a_closing_transport() -> None:
    owner = Owner()
    owner.output.write(b"late")
    owner.transport.closing = True
    await asyncio.sleep(0)
    assert owner.transport.taken == b""


async def test_answers_that_pile_up_within_one_turn_are_bounded_too() -> None:
    owner = Owner()
    answer = bytes(OUTPUT_HIGH_WATER_BYTES)
    for _ in range(OUTPUT_MAX_BYTES // OUTPUT_HIGH_WATER_BYTES):
        owner.output.write(answer)
    assert owner.cut_off == []
    owner.output.write(b"x")
    assert owner.cut_off == [f"does not read: {OUTPUT_MAX_BYTES + 1} bytes wait for it"]
