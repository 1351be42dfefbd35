"""One connection to a broker, which several producers, consumers and requests may share.

The link logs in, answers PINGs and challenges, returns the answer of each request to its caller, and passes frames for
a producer or consumer to its handler. When the link closes, for whatever reason, every waiting request fails and every
handler is called.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol, cast
from urllib.parse import urlsplit

from magnetar import __version__
from magnetar.server.peers.peer_credentials import Method, PeerCredentials
from magnetar.server.peers.peer_errors import PeerError, PeerTimeoutError, PeerUnreachableError
from pulsar_proto.errors import MalformedFrame, PulsarError, UnknownCommand, error_of_code
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, ping_frame, pong_frame, simple_frame
from pulsar_proto.wire.framing import FrameReader

log = logging.getLogger(__name__)

PROTOCOL_VERSION = 21
REQUESTS_MAX = 10_000
"""How many requests may wait for answers on one link. A further request is refused with PeerUnreachableError."""
KEEP_ALIVE_SECONDS = 15.0
"""The interval at which the link sends a PING. If nothing was received for twice this time, the link closes."""
IDLE_TICKS_MAX = 4
"""After this number of keep-alive intervals without producers, consumers and requests the link closes."""
OUTPUT_HIGH_BYTES = 1 << 20
"""When more bytes wait for the broker, `on_output_full` is called. The link takes further frames nevertheless."""
DEFAULT_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}
Type = pb.BaseCommand


class LinkState(Enum):
    """The states of a link."""

    LOGGING_IN = auto()
    READY = auto()
    CLOSED = auto()


class LinkHandler(Protocol):
    """A producer or consumer on a link. The link calls these methods on the loop's thread; they must not raise."""

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        """Called with each command that names the producer or consumer, and the command's payload if it has one."""

    def on_link_closed(self, error: PeerError) -> None:
        """Called once, when the link has closed. The handler is no longer attached."""


class PeerLink(asyncio.BufferedProtocol):
    """One connection to a broker. `open_link` makes a PeerLink."""

    def __init__(self, url: str, credentials: PeerCredentials, scratch: bytearray, frame_bytes_max: int) -> None:
        self.url = url
        self.state = LinkState.LOGGING_IN
        self.max_message_size = 0
        self._credentials = credentials
        self._shows_credentials = False
        self._reader = FrameReader(frame_bytes_max, scratch)
        self._transport: asyncio.Transport | None = None
        self._requests: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._request_id = 0
        self._handler_id = 0
        self._producers: dict[int, LinkHandler] = {}
        self._consumers: dict[int, LinkHandler] = {}
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._silent_ticks = 0
        self.is_paused = False
        """Whether the broker is not read; see `pause_reading`."""
        self._idle_ticks = 0
        self._tick: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        self.on_closed: Callable[[PeerLink], None] = lambda link: None
        self.on_output_full: Callable[[bool], None] = lambda is_full: None
        """Called with True when more than OUTPUT_HIGH_BYTES wait for the broker, and with False when they are gone or
        the link has closed."""
        self._is_output_full = False

    # --- life --------------------------------------------------------------------------------------------------------

    async def log_in(self, *, shows_credentials: bool, proxy_to: str) -> None:
        """Sends CONNECT and waits for CONNECTED. Raises PulsarError for a refusal, and PeerUnreachableError when the
        connection breaks."""
        self._shows_credentials = shows_credentials
        connect = pb.CommandConnect(
            client_version=f"Magnetar-{__version__}",
            protocol_version=PROTOCOL_VERSION,
            feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
        )
        if shows_credentials and self._credentials.method is not Method.NONE:
            connect.auth_method_name = self._credentials.method.value
            connect.auth_data = await self._credentials.data()
        if proxy_to:
            connect.proxy_to_broker_url = urlsplit(proxy_to).netloc
        self.send(simple_frame(pb.BaseCommand(type=Type.CONNECT, connect=connect)))
        await self._connected

    def close(self, error: PeerError | PulsarError | None = None) -> None:
        """Closes the connection. Waiting requests fail, and `on_link_closed` of each handler is called. A second call
        has no further effect."""
        if self.state is LinkState.CLOSED:
            return
        self.state = LinkState.CLOSED
        told = error or PeerUnreachableError(f"the connection to {self.url} was closed")
        lost = told if isinstance(told, PeerError) else PeerUnreachableError(f"{self.url}: {told}")
        if self._tick is not None:
            self._tick.cancel()
        if self._answering is not None:
            self._answering.cancel()
        if self._transport is not None:
            self._transport.abort()
        if not self._connected.done():
            self._connected.set_exception(told)
            self._connected.exception()  # `log_in` may not be waiting for the outcome
        waiting, self._requests = self._requests, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(lost)
        handlers = [*self._producers.values(), *self._consumers.values()]
        self._producers, self._consumers = {}, {}
        self.on_closed(self)
        self.resume_writing()
        for handler in handlers:
            handler.on_link_closed(lost)

    # --- asyncio.BufferedProtocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass of asyncio's
        self._transport.set_write_buffer_limits(high=OUTPUT_HIGH_BYTES)
        self._tick = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._on_tick)

    def pause_writing(self) -> None:
        if self.state is not LinkState.CLOSED:
            self._is_output_full = True
            self.on_output_full(True)

    def resume_writing(self) -> None:
        if self._is_output_full:
            self._is_output_full = False
            self.on_output_full(False)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._silent_ticks = 0
        try:
            for head, payload in self._reader.received(nbytes):
                self._received(head, payload)
                if self.state is LinkState.CLOSED:
                    return
        except MalformedFrame as error:
            self.close(PeerUnreachableError(f"{self.url} sent what does not decode: {error}"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        why = "" if exc is None else f": {exc}"
        self.close(PeerUnreachableError(f"{self.url} closed the connection{why}"))

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Sends a frame. Has no effect on a closed link, because the handlers know of the loss. The frames of a
        producer are bounded by the producer's queue, those of requests by REQUESTS_MAX."""
        if self._transport is not None and self.state is not LinkState.CLOSED:
            self._transport.write(data)

    async def request(self, command: pb.BaseCommand, field: str, deadline_seconds: float) -> pb.BaseCommand:
        """Sends a command whose body `field` has a request id, and returns its answer. Raises PulsarError when the
        answer is an ERROR, PeerTimeoutError when no answer comes in time, and PeerUnreachableError when the link
        closes."""
        if self.state is not LinkState.READY or len(self._requests) >= REQUESTS_MAX:
            raise PeerUnreachableError(f"the connection to {self.url} is closed or takes no more requests")
        self._request_id += 1
        request_id = getattr(command, field).request_id = self._request_id
        answer: asyncio.Future[pb.BaseCommand] = asyncio.get_running_loop().create_future()
        self._requests[request_id] = answer
        self.send(simple_frame(command))
        try:
            async with asyncio.timeout(deadline_seconds):
                return await answer
        except TimeoutError:
            raise PeerTimeoutError(f"{self.url} did not answer within {deadline_seconds:g} s") from None
        finally:
            self._requests.pop(request_id, None)

    # --- back-pressure -----------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Stops reading from the broker, which then stops sending as soon as the buffers on the way are full. This
        holds up every user of the link. A second call has no further effect."""
        if not self.is_paused and self._transport is not None and self.state is not LinkState.CLOSED:
            self.is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_paused and self._transport is not None and self.state is not LinkState.CLOSED:
            self.is_paused = False
            self._silent_ticks = 0
            self._transport.resume_reading()

    # --- producers and consumers -------------------------------------------------------------------------------------

    def attach_producer(self, handler: LinkHandler) -> int:
        """Registers the handler of a producer, and returns the id of the producer on this link. The link must not be
        closed."""
        assert self.state is LinkState.READY
        self._handler_id += 1
        self._producers[self._handler_id] = handler
        return self._handler_id

    def attach_consumer(self, handler: LinkHandler) -> int:
        """Registers the handler of a consumer, and returns the id of the consumer on this link. The link must
        not be closed."""
        assert self.state is LinkState.READY
        self._handler_id += 1
        self._consumers[self._handler_id] = handler
        return self._handler_id

    def detach(self, handler_id: int) -> None:
        """Removes a handler, which is not called any more. Commands that still arrive for the handler's id are
        dropped."""
        self._producers.pop(handler_id, None)
        self._consumers.pop(handler_id, None)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def _received(self, head: bytes, payload: bytes | None) -> None:
        try:
            command = parse_command(head)
        except UnknownCommand:
            return
        match command.type:
            case Type.MESSAGE:
                self._to(self._consumers, command.message.consumer_id, command, payload)
            case Type.SEND_RECEIPT:
                self._to(self._producers, command.send_receipt.producer_id, command, None)
            case Type.SEND_ERROR:
                self._to(self._producers, command.send_error.producer_id, command, None)
            case Type.CLOSE_PRODUCER:
                self._to(self._producers, command.close_producer.producer_id, command, None)
            case Type.CLOSE_CONSUMER:
                self._to(self._consumers, command.close_consumer.consumer_id, command, None)
            case Type.REACHED_END_OF_TOPIC:
                self._to(self._consumers, command.reachedEndOfTopic.consumer_id, command, None)
            case Type.PING:
                self.send(pong_frame())
            case Type.AUTH_CHALLENGE:
                self._answering = asyncio.get_running_loop().create_task(self._answer_challenge())
            case Type.CONNECTED if self.state is LinkState.LOGGING_IN:
                self._logged_in(command.connected)
            case Type.ERROR if self.state is LinkState.LOGGING_IN:
                self.close(error_of_code(command.error.error, command.error.message))
            case _:
                self._answered(command)

    def _to(
        self, handlers: dict[int, LinkHandler], handler_id: int, command: pb.BaseCommand, payload: bytes | None
    ) -> None:
        handler = handlers.get(handler_id)
        if handler is not None:
            handler.on_command(command, payload)

    def _logged_in(self, connected: pb.CommandConnected) -> None:
        self.state = LinkState.READY
        self.max_message_size = connected.max_message_size or 5 * 1024 * 1024
        if not self._connected.done():
            self._connected.set_result(None)

    def _answered(self, command: pb.BaseCommand) -> None:
        """Passes an answer to the request that waits for it. An answer that nobody waits for is dropped."""
        fields = command.ListFields()
        body = fields[-1][1] if len(fields) > 1 else None
        answer = self._requests.get(getattr(body, "request_id", -1))
        if answer is None or answer.done():
            return
        if command.type == Type.ERROR:
            answer.set_exception(error_of_code(command.error.error, command.error.message))
        elif command.type != Type.PRODUCER_SUCCESS or command.producer_success.producer_ready:
            answer.set_result(command)

    async def _answer_challenge(self) -> None:
        """Answers a broker that asks for credentials again because the former credentials have expired."""
        try:
            data = await self._credentials.data() if self._shows_credentials else b""
        except PeerUnreachableError as error:
            self.close(error)
            return
        shown = pb.AuthData(auth_method_name=self._credentials.method.value, auth_data=data)
        answer = pb.CommandAuthResponse(
            client_version=f"Magnetar-{__version__}", response=shown, protocol_version=PROTOCOL_VERSION
        )
        self.send(simple_frame(pb.BaseCommand(type=Type.AUTH_RESPONSE, authResponse=answer)))

    def _on_tick(self) -> None:
        if not self.is_paused:  # a broker that is not read is not silent
            self._silent_ticks += 1
        in_use = self._producers or self._consumers or self._requests or self.state is LinkState.LOGGING_IN
        self._idle_ticks = 0 if in_use else self._idle_ticks + 1
        if self._silent_ticks > 2:
            self.close(PeerUnreachableError(f"{self.url} has been silent for {2 * KEEP_ALIVE_SECONDS:g} s"))
        elif self._idle_ticks > IDLE_TICKS_MAX:
            self.close()
        else:
            if self.state is LinkState.READY:
                self.send(ping_frame())
            self._tick = asyncio.get_running_loop().call_later(KEEP_ALIVE_SECONDS, self._on_tick)


async def open_link(
    url: str,
    credentials: PeerCredentials,
    *,
    shows_credentials: bool,
    proxy_to: str,
    scratch: bytearray,
    frame_bytes_max: int,
    deadline_seconds: float,
) -> PeerLink:
    """Connects to `url`, pulsar://host:port or pulsar+ssl://host:port, and logs in. Raises PeerUnreachableError when
    the connection fails, PeerTimeoutError when the broker does not answer in time, and PulsarError for a refused
    login."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise PeerUnreachableError(f"'{url[:200]}' is no address of a broker") from None
    tls: ssl.SSLContext | None = None
    if parts.scheme == "pulsar+ssl":
        tls = await credentials.tls()
        if tls is None:
            raise PeerUnreachableError(f"{url} asks for TLS, and brokerClientTlsEnabled is off")
    link = PeerLink(url, credentials, scratch, frame_bytes_max)
    try:
        async with asyncio.timeout(deadline_seconds):
            await asyncio.get_running_loop().create_connection(lambda: link, host, port, ssl=tls)
            await link.log_in(shows_credentials=shows_credentials, proxy_to=proxy_to)
    except TimeoutError:
        link.close()
        raise PeerTimeoutError(f"{url} did not let us in within {deadline_seconds:g} s") from None
    except OSError as error:
        link.close()
        raise PeerUnreachableError(f"cannot connect to {url}: {error}") from error
    except BaseException:
        link.close()
        raise
    return link
