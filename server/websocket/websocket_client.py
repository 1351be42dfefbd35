"""One WebSocket client. For topics it is a `ClientConnection`, whose frames do not go to a socket but to a session.

Frames that producers and consumers write for this client are collected until the end of the event loop's turn, and are
then handed to the session, whose answers leave as WebSocket text messages (RFC 6455, section 5) in one write.

Back-pressure works both ways. While the peer does not take its output, `is_writable` is False, so dispatchers choose
other consumers, and no further text is read from the peer. While a session or a limiter throttles the client, its texts
stay in the `PeerInput`, which stops reading the socket when too many wait.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from aiohttp import web

from magnetar.server.security.operations import TopicOperation
from magnetar.server.web.http_connection import HttpConnection
from magnetar.server.websocket.frame_rules import (
    GOING_AWAY,
    INTERNAL_ERROR,
    INVALID_TEXT,
    PING,
    close_frame,
    cut,
    pong_frame,
    text_head,
)
from magnetar.server.websocket.handshake_rules import switching_protocols
from magnetar.server.websocket.json_message_rules import NotUtf8Error
from magnetar.server.websocket.peer_frames import EndKind, PeerEnd
from magnetar.server.websocket.peer_input import PeerInput
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import close_consumer_frame, close_producer_frame

if TYPE_CHECKING:
    from magnetar.server.security.principals import Principal
    from magnetar.server.websocket.session import Session
    from magnetar.server.websocket.socket_service import SocketService

log = logging.getLogger(__name__)

OUTPUT_HIGH_WATER_BYTES = 1 << 20
OUTPUT_LOW_WATER_BYTES = 256 << 10
OUTPUT_MAX_BYTES = 128 << 20
"""A peer is cut off when this much output waits for it. Output exceeds the high-water mark only by messages that a
dispatcher had read before."""

CLOSE_SECONDS, BROKEN_CLOSE_SECONDS = 5.0, 1.0
"""How long a socket that was closed from this side may take to answer before its connection is closed. A peer that
broke the protocol has less time: its answer cannot be read, and it only needs the time to read the close frame."""

STUCK_SECONDS_MAX = 60.0
"""The connection of a peer that takes no output for this long is aborted."""

CLIENT_VERSION = "Magnetar-WebSocket"
PROTOCOL_VERSION = 20
"""The version of Pulsar's protocol that sessions understand: batches, checksums, ends of topics."""


class SocketState(Enum):
    """The states of a socket. A socket passes through them in this order, and may skip the second state."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


class WebSocketClient:
    """One socket. Implements `magnetar.server.topics.client_connection.ClientConnection`, and `HttpSocket` of the web
    port's connection."""

    def __init__(self, service: "SocketService", request: web.BaseRequest, principal: "Principal | None") -> None:
        self.service = service
        self.broker = service.broker
        self.principal = principal
        """The principal of the peer; None while authentication is off."""
        connection = request.protocol
        assert isinstance(connection, HttpConnection)
        self._connection = connection
        peer = request.transport.get_extra_info("peername") if request.transport is not None else None
        self.remote_address = f"/{f'[{peer[0]}]' if ':' in peer[0] else peer[0]}:{peer[1]}" if peer else "/unknown"
        self.state = SocketState.OPENING
        self.session: Session
        """The session of the client. The service sets it before anything else is done with the client."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.input = PeerInput(self, connection, service.settings.web_socket_max_text_frame_size, service.unfinished)
        self._over: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is not needed any more."""
        self._frames: list[bytes] = []
        """The frames that the topics' code wrote and that the session has not got yet."""
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._is_scheduled = False
        self._is_paused = False
        self._waiters: list[Callable[[], None]] = []
        self._liveness: asyncio.Future[bool] | None = None
        now_s = self._loop.time()
        self._active_s = self._pinged_s = self._taken_s = now_s
        self._unsent_seen = 0

    async def authorize(self, operation: TopicOperation, topic: TopicName, subscription: str | None = None) -> None:
        """Returns when the peer may do the operation. Raises AuthorizationFault when the peer may not, TopicNotFound
        for a tenant that does not exist, and ServiceNotReady when the permissions cannot be read."""
        await self.service.authorize(self, operation, topic, subscription)

    # --- ClientConnection --------------------------------------------------------------------------------------------

    @property
    def client_version(self) -> str:
        return CLIENT_VERSION

    @property
    def protocol_version(self) -> int:
        return PROTOCOL_VERSION

    @property
    def is_open(self) -> bool:
        return self.state is not SocketState.CLOSED

    @property
    def is_writable(self) -> bool:
        return not self._is_paused and self._output_bytes < OUTPUT_HIGH_WATER_BYTES

    def when_writable(self, callback: Callable[[], None]) -> None:
        if self.is_open:
            self._waiters.append(callback)
            self._schedule()

    def write(self, data: bytes) -> None:
        if self.is_open:
            self._frames.append(data)
            self._schedule()

    def write_frames(self, chunks: list[bytes]) -> None:
        if self.is_open:
            self._frames += chunks
            self._schedule()

    def throttle_reading(self, key: object) -> None:
        if self.is_open:
            self.input.throttle(key)

    def release_reading(self, key: object) -> None:
        self.input.release(key)

    def close_producer(self, producer_id: int) -> None:
        self.write(close_producer_frame(producer_id))

    def close_consumer(self, consumer_id: int) -> None:
        self.write(close_consumer_frame(consumer_id))

    async def check_liveness(self) -> bool:
        timeout_ms = self.broker.limits.connection_liveness_check_timeout_millis
        if timeout_ms <= 0 or self.state is SocketState.OPENING:
            return self.is_open
        if not self.is_open:
            return False
        if self._liveness is None or self._liveness.done():
            self._liveness = self._loop.create_future()
            self._loop.call_later(timeout_ms / 1000, self._liveness_expired, self._liveness)
            self._send_now(PING)
        return await asyncio.shield(self._liveness)

    def close(self, reason: str, code: int = INTERNAL_ERROR) -> None:
        """Ends the socket, and tells the peer the code and the reason."""
        self._close(reason, code, CLOSE_SECONDS)

    # --- for the session ---------------------------------------------------------------------------------------------

    def say(self, text: bytes) -> None:
        """Sends one text message, UTF-8, at the end of this turn of the event loop."""
        self.say_all([text])

    def say_all(self, texts: Iterable[bytes]) -> None:
        """Sends text messages, UTF-8, at the end of this turn of the event loop."""
        if not self.is_open:
            return
        output = self._output
        for text in texts:
            size = len(text)
            output += (text_head(size), text)
            self._output_bytes += size
        self._schedule()

    def guarded(self, call: Callable[..., None], *arguments: object) -> None:
        """Runs code of the session. An error in this code closes this socket, and no other."""
        try:
            call(*arguments)
        except Exception:
            log.exception("%s: a socket failed", self.remote_address)
            self.close("an error of the server; its log says more")

    # --- for the service ---------------------------------------------------------------------------------------------

    async def run(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers the upgrade and serves the socket until it is closed. Raises nothing but CancelledError."""
        response = switching_protocols(request)
        try:
            if self.is_open:
                await response.prepare(request)
                self._begin()
                await self._over
        except ConnectionError as error:
            self._become_closed(f"closed by the peer ({error})")
        except Exception:
            log.exception("%s: a socket failed", self.remote_address)
            self._become_closed("an error of the server")
        finally:
            self._become_closed("closed by the peer")
        return response

    def tick(self, now_s: float) -> None:
        """Called about once a second. Sends a ping, and closes a socket that is idle or takes nothing of its output."""
        if self.state is not SocketState.OPEN:
            return
        assert self._transport is not None
        settings = self.service.settings
        unsent = self.unsent_bytes
        if unsent != self._unsent_seen or not unsent:
            self._unsent_seen, self._taken_s = unsent, now_s
        if now_s - self._taken_s > STUCK_SECONDS_MAX:
            self.cut_off(f"took nothing of {unsent} bytes in {STUCK_SECONDS_MAX:g} s")
            return
        idle_ms = settings.web_socket_session_idle_timeout_millis
        if 0 < idle_ms <= (now_s - self._active_s) * 1000:
            self.close(f"idle for {idle_ms} ms (webSocketSessionIdleTimeoutMillis)", GOING_AWAY)
            return
        ping_s = settings.web_socket_ping_duration_seconds
        if 0 < ping_s <= now_s - self._pinged_s:
            self._pinged_s = now_s
            self._send_now(PING, is_activity=False)
        self.guarded(self.session.tick, now_s)

    @property
    def unsent_bytes(self) -> int:
        """Returns the number of bytes that the peer has not taken."""
        return self._output_bytes + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def cut_off(self, reason: str) -> None:
        """Ends the socket at once. Output that was not delivered is lost."""
        self._become_closed(reason)
        if self._transport is not None:
            self._transport.abort()

    # --- HttpSocket: called by the connection of the web port --------------------------------------------------------

    def pause_writing(self) -> None:
        self._is_paused = True
        self.throttle_reading(self)

    def resume_writing(self) -> None:
        self._is_paused = False
        self.release_reading(self)
        self.on_ping()
        self._schedule()

    def lost(self) -> None:
        """Called when the connection is lost."""
        self._become_closed("closed by the peer")
        self._finish()

    # --- InputOwner: called by the `PeerInput` -----------------------------------------------------------------------

    def heard(self) -> None:
        self._active_s = self._loop.time()
        if self._liveness is not None and not self._liveness.done():
            self._liveness.set_result(True)

    def on_texts(self, texts: Sequence[bytearray]) -> int:
        try:
            return self.session.on_texts(texts)
        except NotUtf8Error:
            self.close("a text is not UTF-8", INVALID_TEXT)
        except Exception:
            log.exception("%s: a socket failed", self.remote_address)
            self.close("an error of the server; its log says more")
        return len(texts)

    def on_ping(self) -> None:
        """Answers the newest ping. While the peer does not take its output, the ping waits."""
        if not self._is_paused and (ping := self.input.taken_ping()) is not None:
            self._send_now(pong_frame(ping))

    def on_end(self, end: PeerEnd) -> None:
        if end.kind is EndKind.CLOSED:
            if self._become_closed(f"closed by the peer ({end.code})"):
                self._send_output()
                self._send_now(close_frame(end.code))
            self._finish()
        elif end.kind is EndKind.REFUSED:
            self.close(end.reason, end.code)
        elif self.is_open:
            self._close(f"the peer broke the protocol: {end.reason}", end.code, BROKEN_CLOSE_SECONDS)
        else:
            self._finish()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        transport = self._connection.transport
        if not self.is_open or transport is None:
            raise ConnectionResetError("the connection was lost during the upgrade")
        self._transport, self.state = transport, SocketState.OPEN
        transport.set_write_buffer_limits(high=OUTPUT_HIGH_WATER_BYTES, low=OUTPUT_LOW_WATER_BYTES)
        self._connection.upgraded(self)
        log.info("%s: WebSocket of a %s", self.remote_address, self.service.named(self))
        self.guarded(self.session.started)
        parser: Any = self.input  # aiohttp declares its own parser, and calls nothing but `feed_data` and `feed_eof`.
        self._connection.set_parser(parser)
        self._schedule()

    def _close(self, reason: str, code: int, seconds: float) -> None:
        """Ends the socket, tells the peer, and waits for its answer for so many seconds."""
        was_open = self.state is SocketState.OPEN
        if not self._become_closed(reason) or not was_open:
            return
        self._send_output()
        self._send_now(close_frame(code, reason))
        self.input.discard()
        self._loop.call_later(seconds, self._finish)

    def _finish(self) -> None:
        """Lets `run` come to its end, after which aiohttp closes the connection."""
        if not self._over.done():
            self._over.set_result(None)

    def _schedule(self) -> None:
        if not self._is_scheduled and self.state is SocketState.OPEN:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        frames, self._frames = self._frames, []
        if frames:
            self.guarded(self._hand_over, b"".join(frames))
        self._send_output()
        while self._waiters and self.is_writable and self.is_open:
            waiters, self._waiters = self._waiters, []
            for callback in waiters:
                callback()

    def _hand_over(self, data: bytes) -> None:
        for command, payload in cut(data):
            if self.is_open:
                self.session.on_command(pb.BaseCommand.FromString(command), payload)

    def _send_output(self) -> None:
        if self._output:
            output, self._output = self._output, []
            self._output_bytes = 0
            self._send_now(b"".join(output))

    def _send_now(self, data: bytes, *, is_activity: bool = True) -> None:
        """Hands bytes to the socket. `is_activity` is False for the pings of `tick`: a peer that gets nothing but these
        pings counts as idle."""
        if self._transport is None or self._transport.is_closing():
            return
        if is_activity:
            self._active_s = self._loop.time()
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > OUTPUT_MAX_BYTES:
            self.cut_off(f"does not read: {self.unsent_bytes} bytes wait for it")

    def _become_closed(self, reason: str) -> bool:
        """Ends the socket; no other place does so. Removes everything of the socket from topics. Returns False when the
        socket had ended before."""
        if not self.is_open:
            return False
        log.info("%s: WebSocket closed: %s", self.remote_address, reason)
        self.state = SocketState.CLOSED
        self._frames.clear()
        self._waiters.clear()
        if self._liveness is not None and not self._liveness.done():
            self._liveness.set_result(False)
        self.service.left(self)
        try:
            self.session.closed()
        except Exception:
            log.exception("%s: a session could not be closed", self.remote_address)
        return True

    def _liveness_expired(self, check: "asyncio.Future[bool]") -> None:
        if not check.done():
            check.set_result(False)
            self.cut_off("no answer to the liveness check")
