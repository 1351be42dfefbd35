"""A transport in memory."""

import asyncio
from typing import Any, cast


class FakeTransport(asyncio.Transport):
    """Takes what is written at once. While it is `blocked` it keeps the bytes until the peer calls `take`. Its water
    marks work like those of asyncio's transports."""

    def __init__(self, peer: tuple[str, int] = ("127.0.0.1", 50_000)) -> None:
        super().__init__({"peername": peer})
        self.protocol: asyncio.BaseProtocol | None = None
        self.taken = bytearray()
        self.waiting = bytearray()
        self.calls: list[int] = []
        """The sizes of the writes."""
        self.blocked = False
        self.reading = True
        self.closing = False
        self.aborted = False
        self._paused = False
        self._high = self._low = 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def write(self, data: Any) -> None:
        assert not self.aborted
        self.calls.append(len(data))
        if not self.blocked:
            self.taken += data
            return
        self.waiting += data
        if len(self.waiting) > self._high and not self._paused:
            self._paused = True
            cast(asyncio.Protocol, self.protocol).pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def take(self, size: int) -> None:
        """Reads `size` bytes as the peer."""
        self.taken += self.waiting[:size]
        del self.waiting[:size]
        if self._paused and len(self.waiting) <= self._low:
            self._paused = False
            cast(asyncio.Protocol, self.protocol).resume_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.lose, None)

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            if not self.closing:
                self.closing = True
                asyncio.get_running_loop().call_soon(self.lose, None)

    def lose(self, error: Exception | None = None) -> None:
        """Ends the connection, and tells the protocol as the loop would."""
        self.closing = True
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connection_lost(error)
