"""The output of one connection, which is collected during a turn of the event loop and handed to the transport once, at
the end of the turn.

Water marks. Above OUTPUT_HIGH_WATER_BYTES the output is not writable: dispatchers choose other consumers, and the
connection stops reading, so that answers to requests are bounded too. Below OUTPUT_LOW_WATER_BYTES the output is
writable again. Output that is already on its way (messages that a dispatcher has read, receipts of stored messages) is
still added above the high mark. A peer that lets OUTPUT_MAX_BYTES pile up is cut off.
"""

import asyncio
from collections.abc import Callable

from magnetar.server.network.gone_transport import GONE

OUTPUT_HIGH_WATER_BYTES = 4 << 20
OUTPUT_LOW_WATER_BYTES = 1 << 20
OUTPUT_MAX_BYTES = 128 << 20
JOIN_BELOW_BYTES = 64 << 10
"""Chunks shorter than this are joined before they are written, because one copy is cheaper than one more chunk in a
vectored write. Longer chunks are never joined."""


class Output:
    """Owns the writing side of a transport, and decides by the water marks whether the output is writable. Implements
    `magnetar.server.process.byte_budget.BudgetedClient`."""

    __slots__ = (
        "_chunks",
        "_cut_off",
        "_handed_bytes",
        "_has_large",
        "_idle_since_s",
        "_loop",
        "_paused",
        "_pending_bytes",
        "_scheduled",
        "_sent",
        "_taken_seen",
        "_transport",
        "_waiters",
        "_writable_changed",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        writable_changed: Callable[[bool], None],
        cut_off: Callable[[str], None],
        sent: Callable[["Output", int], None],
    ) -> None:
        """Calls `writable_changed(writable)` when the transport's buffer passes a water mark, `cut_off(reason)` when
        the peer makes the server hold too much, and `sent(self, size)` whenever it has handed `size` bytes to the
        transport."""
        self._loop = loop
        self._transport = transport
        self._writable_changed = writable_changed
        self._cut_off = cut_off
        self._sent = sent
        self._taken_seen = -1
        self._idle_since_s = 0.0
        self._chunks: list[bytes] = []
        self._pending_bytes = 0
        self._handed_bytes = 0
        self._has_large = False
        self._scheduled = False
        self._paused = False
        self._waiters: list[Callable[[], None]] = []
        transport.set_write_buffer_limits(high=OUTPUT_HIGH_WATER_BYTES, low=OUTPUT_LOW_WATER_BYTES)

    @property
    def is_writable(self) -> bool:
        return not self._paused and self._pending_bytes < OUTPUT_HIGH_WATER_BYTES

    @property
    def held_bytes(self) -> int:
        """Returns the number of bytes that the peer has not taken: those of this turn's chunks and of the transport's
        buffer."""
        return self._pending_bytes + self._transport.get_write_buffer_size()

    @property
    def taken_bytes(self) -> int:
        """Returns the number of bytes that the kernel has taken from the transport so far. The number grows while the
        peer reads."""
        return self._handed_bytes - self._transport.get_write_buffer_size()

    def idle_since(self, now_s: float) -> float:
        """Returns the last time at which the peer was seen to have taken output, or at which no output
        waited (`byte_budget.BudgetedClient.idle_since`)."""
        taken = self.taken_bytes
        if taken != self._taken_seen or not self.held_bytes:
            self._taken_seen, self._idle_since_s = taken, now_s
        return self._idle_since_s

    def cut_off_for_room(self) -> None:
        """Ends the connection. The output budget calls this when it has chosen this connection, to free memory."""
        self._cut_off(
            f"does not read: {self.held_bytes} bytes wait for it, and all clients together have more than "
            "maxMessageDispatchBufferSizeInMB waiting"
        )

    def write(self, data: bytes) -> None:
        size = len(data)
        self._chunks.append(data)
        self._pending_bytes += size
        if size >= JOIN_BELOW_BYTES:
            self._has_large = True
        self._schedule()

    def write_frames(self, chunks: list[bytes]) -> None:
        """Adds many chunks at once. A frame may be spread over several chunks, so that a large payload is never
        copied."""
        if not chunks:
            return
        self._chunks += chunks
        for chunk in chunks:
            size = len(chunk)
            self._pending_bytes += size
            if size >= JOIN_BELOW_BYTES:
                self._has_large = True
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)
        if self._pending_bytes > OUTPUT_MAX_BYTES:
            self._too_much()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, as soon as the output is writable, but not before the next turn of the event loop."""
        self._waiters.append(callback)
        if self.is_writable and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hands all collected output to the transport. Called once in a turn of the event loop, and before an orderly
        close."""
        self._scheduled = False
        if self._transport.is_closing():
            self.forget()
            return
        if self._chunks:
            chunks, self._chunks = self._chunks, []
            large, self._has_large = self._has_large, False
            sent, self._pending_bytes = self._pending_bytes, 0
            self._handed_bytes += sent
            if large:
                self._transport.writelines(join_small(chunks))
            else:
                self._transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
            if self._paused and self._transport.get_write_buffer_size() > OUTPUT_MAX_BYTES:
                self._too_much()
                return
            self._sent(self, sent)
        if self._waiters and not self._paused:
            self._wake()

    def pause(self) -> None:
        """Called when the transport's buffer has passed the high-water mark."""
        self._paused = True
        self._writable_changed(False)

    def resume(self) -> None:
        """Called when the transport's buffer has fallen below the low-water mark."""
        self._paused = False
        self._writable_changed(True)
        self._wake()

    def forget(self) -> None:
        """Called when the connection is closed: nothing is written or called back any more. The callbacks are dropped,
        because they refer to the connection, and the reference cycle would keep the connection in memory."""
        self._writable_changed = self._cut_off = _is_ignored
        self._chunks.clear()
        self._waiters.clear()
        self._pending_bytes = 0

    def lost(self) -> None:
        """Called when the transport of the closed connection is closed as well. Drops the transport, because a TLS
        transport refers to its connection, and the reference cycle would keep both in memory."""
        self.forget()
        self._transport = GONE

    def _too_much(self) -> None:
        self._cut_off(f"does not read: {self.held_bytes} bytes wait for it")

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for callback in waiters:
            callback()


def _is_ignored(_: object) -> None:
    """Takes the place of `writable_changed` and of `cut_off` in a closed connection."""


def join_small(chunks: list[bytes]) -> list[bytes]:
    """Returns the bytes of `chunks` in order, but with neighbouring chunks below JOIN_BELOW_BYTES joined into one
    chunk."""
    joined: list[bytes] = []
    small: list[bytes] = []
    for chunk in chunks:
        if len(chunk) < JOIN_BELOW_BYTES:
            small.append(chunk)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(chunk)
    if small:
        joined.append(b"".join(small))
    return joined
