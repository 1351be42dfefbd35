"""What comes from a socket's peer: bytes become texts, which wait here until the session takes them.

All texts of one read are handed over as one group, unless the group is so large that other clients should have a turn
in between. While the socket is throttled its texts stay here; when too many wait, the connection is not read.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from magnetar.server.process.byte_budget import ByteBudget
from magnetar.server.web.http_connection import HttpConnection
from magnetar.server.websocket.peer_frames import PeerEnd, PeerFrames

TEXTS_A_STEP, BYTES_A_STEP = 200, 256 << 10
"""After this many texts of one client were handled, or texts of this many bytes, other clients have a turn."""

WAITING_BYTES_HIGH, WAITING_BYTES_LOW = 256 << 10, 64 << 10
"""The connection is not read from when more bytes than HIGH wait here until no more than LOW do."""

TEXT_OVERHEAD_BYTES = 128
"""Added to the size of each text, so that empty texts cannot fill the memory."""


class InputOwner(Protocol):
    """The client whose peer's bytes come in."""

    def heard(self) -> None:
        """Called when bytes came from the peer."""

    def on_texts(self, texts: Sequence[bytearray]) -> int:
        """Handles texts in their order, and returns how many of them. The others are handed over again, when the client
        is not throttled any more. Raises nothing."""

    def on_ping(self) -> None:
        """Called when the peer has sent a ping, which `PeerInput.taken_ping` returns."""

    def cut_off(self, reason: str) -> None:
        """Called when the peer's unfinished message takes room that others need: closes the connection at once."""

    def on_end(self, end: PeerEnd) -> None:
        """Called when all texts were handled and no further text comes. After an end of the kind REFUSED the method is
        called again, if a close frame comes."""


class PeerInput:
    """The input of one socket. aiohttp hands over the bytes after the upgrade, by `feed_data` and `feed_eof`.
    Implements `magnetar.server.process.byte_budget.BudgetedClient` for the messages that have come only in part."""

    def __init__(self, owner: InputOwner, connection: HttpConnection, size_max: int, unfinished: ByteBudget) -> None:
        """`size_max` is the largest number of bytes of a message. `unfinished` bounds the bytes of the messages of all
        sockets that have come only in part."""
        self._owner = owner
        self._connection = connection
        self._frames = PeerFrames(size_max)
        self._loop = asyncio.get_running_loop()
        self._unfinished = unfinished
        self._heard_s = self._loop.time()
        self._texts: list[bytearray] = []
        self._waiting_bytes = 0
        self._throttles: set[object] = set()
        self._is_due = False
        """Whether the next step is scheduled."""
        self._is_paused = False
        self._is_discarding = False
        self._end: PeerEnd | None = None
        """The end that the owner was told."""

    # --- for the connection of the web port --------------------------------------------------------------------------

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Takes bytes of the peer. Returns what aiohttp expects from a parser: no end, and no bytes left over."""
        self._owner.heard()
        self._heard_s = self._loop.time()
        self._take(data)
        self._unfinished.added(self, len(data))
        if not self._is_due:
            self._step()
        return False, b""

    def feed_eof(self) -> None:
        """Does nothing, because the connection tells its socket of the end (`HttpSocket.lost`)."""

    # --- for the budget of unfinished messages -----------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        return self._frames.unfinished_bytes

    def idle_since(self, now_s: float) -> float:
        """Returns when the peer has last sent something. A peer that is not read from at the moment cannot go on, so it
        does not count as idle."""
        return now_s if self._is_paused or not self.held_bytes else self._heard_s

    def cut_off_for_room(self) -> None:
        self._owner.cut_off(
            f"sends no more of a message of which {self.held_bytes} bytes have come, and such messages of all sockets "
            "together exceed maxMessagePublishBufferSizeInMB"
        )

    # --- for the client ----------------------------------------------------------------------------------------------

    def throttle(self, key: object) -> None:
        """Stops the handing over of texts until each key was released."""
        self._throttles.add(key)

    def release(self, key: object) -> None:
        self._throttles.discard(key)
        if not self._throttles and self._texts:
            self._step_soon()

    def discard(self) -> None:
        """Drops all texts from now on. Only the end is still told."""
        self._is_discarding = True
        self._throttles.clear()
        self._step_soon()

    def taken_ping(self) -> bytes | None:
        """Returns the body of the newest ping, or None when no ping is left to be answered."""
        ping, self._frames.ping = self._frames.ping, None
        return ping

    # --- inside ------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        texts = self._frames.take(data)
        if texts:
            self._waiting_bytes += sum(map(len, texts)) + len(texts) * TEXT_OVERHEAD_BYTES
            self._texts = self._texts + texts if self._texts else texts
        if self._frames.ping is not None:
            self._owner.on_ping()

    def _step_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        """Hands one portion of the texts over, and schedules the next step if there is more to do."""
        self._is_due = False
        if not self._texts and self._frames.has_more:
            self._take(b"")
        if self._texts and not self._throttles and not self._is_discarding:
            self._remove(self._owner.on_texts(self._portion()))
        if self._is_discarding:
            self._remove(len(self._texts))
        if (self._texts and not self._throttles) or (not self._texts and self._frames.has_more):
            self._step_soon()
        self._pause_or_resume()
        end = self._frames.end
        if end is not self._end and end is not None and not self._texts:
            self._end = end
            self._owner.on_end(end)

    def _portion(self) -> list[bytearray]:
        texts = self._texts
        if len(texts) <= TEXTS_A_STEP and self._waiting_bytes <= BYTES_A_STEP:
            return texts
        size = 0
        for index, text in enumerate(texts):
            size += len(text)
            if index + 1 == TEXTS_A_STEP or size >= BYTES_A_STEP:
                return texts[: index + 1]
        return texts

    def _remove(self, count: int) -> None:
        if count >= len(self._texts):
            self._texts, self._waiting_bytes = [], 0
        else:
            gone = self._texts[:count]
            self._waiting_bytes -= sum(map(len, gone)) + count * TEXT_OVERHEAD_BYTES
            del self._texts[:count]

    def _pause_or_resume(self) -> None:
        if self._is_paused:
            if self._waiting_bytes <= WAITING_BYTES_LOW and not self._frames.has_more:
                self._is_paused = False
                self._heard_s = self._loop.time()
                self._connection.resume_reading()
        elif self._waiting_bytes > WAITING_BYTES_HIGH or self._frames.has_more:
            self._is_paused = True
            self._connection.pause_reading()
