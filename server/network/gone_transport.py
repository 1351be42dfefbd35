"""The transport that a connection has after it was lost.

A TLS transport refers to its connection through the connection's read buffer. So a connection that kept its transport
would be part of a reference cycle, and stay in memory until the garbage collector finds the cycle.
"""

import asyncio


class GoneTransport(asyncio.Transport):
    """A transport that is closed from the beginning. It keeps no state, so a single object serves all connections."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        """Does nothing, because this transport is closed already."""

    abort = close


GONE = GoneTransport()
