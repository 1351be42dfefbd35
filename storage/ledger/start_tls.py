"""The client's side of START_TLS: asks a bookie for TLS on a new connection, and does the handshake.

The request goes out in v3 and in the clear, also on a connection that will speak v2. Source:
PerChannelBookieClient.initiateTLS, initTLSHandshake.
"""

import asyncio
import ssl
from typing import cast

from magnetar.storage.ledger.wire_connection import BookieConnection
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.read_buffer import LENGTH_BYTES

ANSWER_BYTES_MAX = 256
"""The longest answer to START_TLS that is read."""
SHUTDOWN_SECONDS_MAX = 1.0


async def start_tls(
    transport: asyncio.Transport, asking: "TlsRequest", connection: BookieConnection, context: ssl.SSLContext
) -> None:
    """Makes `connection` the encrypted connection of a transport whose protocol is `asking`. Raises ConnectionError
    when the bookie does not speak TLS or the handshake fails; the transport is closed then."""
    try:
        await asking.answer
        encrypted = await asyncio.get_running_loop().start_tls(
            transport,
            connection,
            context,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
        )
        if encrypted is None or encrypted.is_closing():
            raise ConnectionResetError("the bookie ended the TLS handshake")
    except ssl.SSLError as error:
        transport.abort()
        why = getattr(error, "verify_message", None) or error.reason or error
        raise ConnectionAbortedError(f"the TLS handshake failed: {why}") from error
    except BaseException:
        transport.abort()
        raise
    connection.connection_made(encrypted)


class TlsRequest(asyncio.BufferedProtocol):
    """The protocol of a new connection until the bookie has answered START_TLS."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the bookie is ready for the handshake. Its error is a ConnectionError."""
        self._buffer = bytearray(LENGTH_BYTES + ANSWER_BYTES_MAX)
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        request = v3.new_request(pb.START_TLS, 1)
        request.startTLSRequest.SetInParent()
        cast(asyncio.Transport, transport).write(v3.frame(request))

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._size :]

    def buffer_updated(self, nbytes: int) -> None:
        self._size += nbytes
        if self.answer.done() or self._size < LENGTH_BYTES:
            return
        length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if length > ANSWER_BYTES_MAX:
            self._fail(f"a packet of {length} bytes came instead of the answer to START_TLS")
        elif self._size > LENGTH_BYTES + length:
            self._fail("bytes in the clear came together with the answer to START_TLS")
        elif self._size == LENGTH_BYTES + length:
            self._judge(bytes(self._buffer[LENGTH_BYTES : self._size]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the bookie ended the connection instead of answering START_TLS")

    def _judge(self, packet: bytes) -> None:
        try:
            response = v3.parse_response(packet)
        except MalformedFrame as error:
            self._fail(f"the answer to START_TLS cannot be read: {error}")
            return
        if response.header.operation != pb.START_TLS or response.status != pb.EOK:
            # The status is that of a bookie without TLS (BookieRequestProcessor.processStartTLSRequestV3).
            self._fail("the bookie does not speak TLS")
        else:
            self.answer.set_result(None)

    def _fail(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(ConnectionRefusedError(why))
