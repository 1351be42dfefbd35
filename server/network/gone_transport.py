"""What takes the place of a connection's transport when the connection is lost.

A TLS transport leads back to its connection, by the read buffer that it asked for: whoever keeps the transport keeps
itself, until the garbage collector comes.
"""

import asyncio


class GoneTransport(asyncio.Transport):
    """One that is closed for ever."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        """It is closed."""

    abort = close


GONE = GoneTransport()
