"""The first packet of a connection to a bookie that has TLS: START_TLS, or any other request.

    client                          gate                            peer (`wire_peer`)
      │ START_TLS, v3, in the clear   │                                │
      ├──────────────────────────────>│                                │
      │<─────────────── EOK, in the clear                              │
      │<══════ TLS handshake ════════>│                                │
      │<══════ requests and answers, encrypted ═══════════════════════>│

A client that begins with another request is served in the clear, as by Apache's bookie. Bytes that come together with
START_TLS were not encrypted, so somebody on the way may have added them: such a connection is closed.
Source: BookieRequestProcessor.processStartTLSRequestV3; PerChannelBookieClient.initiateTLS.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import BookieRc
from pulsar_proto.wire.read_buffer import LENGTH_BYTES

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 64
"""A START_TLS request is no longer than this: a header and an empty message. A longer packet is another request."""
HANDSHAKE_SECONDS_MAX = 10.0
"""The longest time that a handshake may take (startTLSTimeoutSecs of BookKeeper's client)."""
SHUTDOWN_SECONDS_MAX = 1.0


class Peer(Protocol):
    """The protocol of the connection behind the gate, an asyncio.BufferedProtocol."""

    refused: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...


class StartTlsGate(asyncio.BufferedProtocol):
    """Reads the first packet of one connection, and hands the connection over to its peer."""

    def __init__(
        self, peer: Peer, context: Callable[[], ssl.SSLContext], on_end: Callable[["StartTlsGate", bool], None]
    ) -> None:
        """`context()` returns the SSL context for a handshake that begins now. `on_end(gate, has_peer)` is called once:
        when the peer has the connection, or when the connection has ended before that."""
        self._peer = peer
        self._context = context
        self._on_end = on_end
        self._buffer = bytearray(LENGTH_BYTES + REQUEST_BYTES_MAX)
        self._size = 0
        self._upgrade: asyncio.Task[None] | None = None
        self._is_over = False
        self._is_made = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no asyncio.Transport
        self._is_made = True
        if self._peer.refused:
            self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._size :]

    def buffer_updated(self, nbytes: int) -> None:
        self._size += nbytes
        if self._is_over or self._upgrade is not None or self._size < LENGTH_BYTES:
            return
        length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if length > REQUEST_BYTES_MAX:
            self._serve_in_the_clear()
            return
        if self._size < LENGTH_BYTES + length:
            return
        request = _start_tls_in(bytes(self._buffer[LENGTH_BYTES : LENGTH_BYTES + length]))
        if request is None:
            self._serve_in_the_clear()
        elif self._size > LENGTH_BYTES + length:
            log.warning("bookie port: bytes in the clear came together with START_TLS; the connection is closed")
            self.close()
        else:
            self._upgrade = asyncio.get_running_loop().create_task(self._start_tls(request))

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(has_peer=False)

    def close(self) -> None:
        """Closes the connection. The server calls this method when the port closes. If the event loop has not called
        `connection_made` yet, that call will close the connection."""
        self._peer.refused = True
        if self._upgrade is not None:
            self._upgrade.cancel()
        if self._is_made:
            self._transport.abort()
        self._finish(has_peer=False)

    def _serve_in_the_clear(self) -> None:
        """Gives the connection and the bytes that were read to the peer."""
        self._finish(has_peer=True)
        peer, data = self._peer, memoryview(self._buffer)[: self._size]
        self._transport.set_protocol(cast(asyncio.BaseProtocol, peer))
        peer.connection_made(self._transport)
        while data:
            room = peer.get_buffer(len(data))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            peer.buffer_updated(size)
            data = data[size:]

    async def _start_tls(self, request: pb.Request) -> None:
        """Answers START_TLS and does the handshake."""
        answer = v3.response_to(request, BookieRc.EOK)
        answer.startTLSResponse.SetInParent()
        self._transport.write(v3.frame(answer))
        where = self._transport.get_extra_info("peername")
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                self._transport,
                cast(asyncio.BaseProtocol, self._peer),
                self._context(),
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
            )
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            log.warning("bookie port: the TLS handshake with %s failed: %s", where, why)
            self._transport.abort()
            self._finish(has_peer=False)
            return
        if encrypted is None or encrypted.is_closing():
            self._finish(has_peer=False)
            return
        self._finish(has_peer=True)
        self._peer.connection_made(encrypted)

    def _finish(self, *, has_peer: bool) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_end(self, has_peer)


def _start_tls_in(packet: bytes) -> pb.Request | None:
    """Returns the request of a packet that is START_TLS, or None for any other packet."""
    if packet[:1] != b"\x0a":
        return None
    try:
        request = v3.parse_request(packet)
    except MalformedFrame:
        return None  # The peer says what is wrong.
    header = request.header
    is_start = header.operation == pb.START_TLS and header.version == pb.VERSION_THREE
    return request if is_start else None
