"""Checks requests for a WebSocket and opens sockets. The service authenticates the peer, reads from the path what the
socket is for, and checks whether the peer is permitted and whether the topic accepts the producer or consumer.

Everything that can be refused is refused as an HTTP answer, before the upgrade. Sources:
AbstractWebSocketHandler.checkAuth, getErrorCode, getErrorMessage; WebSocketHttpServletRequestWrapper for `?token=`.
"""

import asyncio
import logging
from collections.abc import Mapping

from aiohttp import web

from magnetar.metadata.errors import MetadataError
from magnetar.server.broker.broker import Broker
from magnetar.server.config.websocket_settings import WebSocketSettings
from magnetar.server.process.byte_budget import ByteBudget
from magnetar.server.process.left_objects import leave
from magnetar.server.security.authentication import AUTHORIZATION_HEADER
from magnetar.server.security.authorizer import TenantMissingError
from magnetar.server.security.demands import OnTopic
from magnetar.server.security.operations import TopicOperation
from magnetar.server.security.principals import Principal
from magnetar.server.security.tls_provider import common_name_of
from magnetar.server.web.calls import STATUS_OF, Refusal
from magnetar.server.websocket.frame_rules import GOING_AWAY
from magnetar.server.websocket.handshake_rules import is_handshake
from magnetar.server.websocket.in_flight_bytes import InFlightBytes
from magnetar.server.websocket.session import MakeSession
from magnetar.server.websocket.websocket_client import WebSocketClient
from magnetar.server.websocket.websocket_path_rules import (
    QueryFault,
    SocketKind,
    SocketPath,
    is_socket_path,
    read_path,
)
from pulsar_proto.errors import (
    AuthenticationFault,
    AuthorizationFault,
    ConsumerBusy,
    IncompatibleSchema,
    InvalidTopicName,
    ProducerBusy,
    ProducerFenced,
    PulsarError,
    QuotaExceeded,
    QuotaExceededHold,
    ServiceNotReady,
    TopicNotFound,
    TopicTerminated,
)
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

STATUS_OF_OPENING: dict[type[PulsarError], int] = {
    **STATUS_OF,
    InvalidTopicName: 400,
    AuthenticationFault: 401,
    AuthorizationFault: 403,
    ConsumerBusy: 409,
    ProducerBusy: 409,
    ProducerFenced: 409,
    IncompatibleSchema: 409,
    QuotaExceeded: 503,
    QuotaExceededHold: 503,
    TopicTerminated: 503,
}
"""The status of the HTTP answer for each error of opening a socket. Other errors are answered with 500."""

TICK_SECONDS = 1.0
"""The interval at which every socket's `tick` is called for pings and time-outs. When a time-out is shorter, the
interval is shorter, too."""

BEARER = "Bearer "


class WebSocketService:
    """All sockets of one broker. Implements `magnetar.server.web.upgrades.Upgrades`."""

    def __init__(
        self,
        broker: Broker,
        settings: WebSocketSettings,
        connections_max: int,
        sessions: Mapping[SocketKind, MakeSession],
    ) -> None:
        """The constructor may be called on any thread. `connections_max` is the largest number of connections of the
        web port; `sessions` says which session serves which kind of path."""
        self._sessions = sessions
        self.broker = broker
        self.settings = settings
        self._sockets_max = settings.web_socket_max_connections or max(1, connections_max // 2)
        bytes_max = broker.limits.max_message_publish_buffer_size_in_mb << 20
        self.in_flight = InFlightBytes(bytes_max)
        self.unfinished = ByteBudget(bytes_max, lambda: asyncio.get_running_loop().time())
        self._sockets: dict[WebSocketClient, SocketPath] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def sockets(self) -> list[WebSocketClient]:
        """The sockets that are open or being opened."""
        return list(self._sockets)

    def named(self, client: WebSocketClient) -> str:
        """Returns the text by which log lines name a socket's purpose."""
        return str(self._sockets.get(client))

    def takes(self, raw_path: str) -> bool:
        return is_socket_path(raw_path)

    async def open(self, request: web.BaseRequest) -> WebSocketClient:
        """Judges a request and returns the socket that may be opened (see `Upgrades.open`). The peer is authenticated
        before anything else of the request is looked at."""
        principal = await self._principal(request)
        query = {name: request.query[name] for name in request.query}
        try:
            path = read_path(request.rel_url.raw_path, query)
            if path is None:
                raise Refusal(404, f"There is no WebSocket at {request.path}")
            _check_handshake(request)
            self._check_room()
            client = WebSocketClient(self, request, principal)
            client.session = self._sessions[path.kind](client, path, query)
        except QueryFault as fault:
            raise Refusal(400, f"Invalid query params: {fault}") from None
        self._sockets[client] = path
        await self._open(client, path)
        self._tick_later()
        return client

    async def _open(self, client: WebSocketClient, path: SocketPath) -> None:
        """Opens the session. If the request is cancelled, the session's `open` still runs to its end, so that no topic
        is left half changed, and the session is closed after that."""
        faults: list[Exception] = []

        async def opening() -> None:
            try:
                await client.session.open()
            except Exception as error:
                faults.append(error)
            if not client.is_open:
                client.session.closed()

        try:
            await asyncio.shield(self.broker.spawn(opening()))
        except asyncio.CancelledError:
            client.close("given up while it was opened")
            raise
        if not faults and not client.is_open:
            faults.append(ServiceNotReady("The socket was closed while it was opened"))
        if faults:
            client.close(f"not opened: {faults[0]}")
            raise _refusal_of(path, faults[0])

    async def _principal(self, request: web.BaseRequest) -> Principal | None:
        """Returns the principal of the peer, or None while authentication is off. Raises Refusal 401 when the peer's
        credentials are refused."""
        security = self.broker.security
        if security is None:
            return None
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        principal = await security.principal_of_http(
            _with_token(request.headers, request.query.get("token", "")),
            common_name_of(certificate),
            request.remote or "",
        )
        if principal is None:
            raise Refusal(401, "Failed to authenticate")
        return principal

    async def authorize(
        self, client: WebSocketClient, operation: TopicOperation, topic: TopicName, subscription: str | None
    ) -> None:
        """Returns when the peer may do the operation; raises the errors of `WebSocketClient.authorize`."""
        security = self.broker.security
        if security is None or security.authorizer is None:
            return
        assert client.principal is not None
        try:
            denied = await security.authorizer.denied(
                client.principal,
                OnTopic(operation),
                tenant=topic.tenant,
                namespace=topic.namespace,
                topic=topic,
                subscription=subscription,
            )
        except TenantMissingError:
            raise TopicNotFound("Tenant does not exist") from None
        except MetadataError as error:
            raise ServiceNotReady(f"Permissions cannot be read: {error}") from error
        if denied is not None:
            log.warning(
                "%s: denied %s on %s to role %s %s",
                client.remote_address,
                operation.name,
                topic,
                client.principal,
                denied,
            )
            raise AuthorizationFault(denied or "Not authorized")

    def left(self, client: WebSocketClient) -> None:
        """Called when a socket has ended."""
        self._sockets.pop(client, None)
        self.unfinished.left(client.input)
        leave(client)

    def close(self) -> None:
        self._is_closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        for client in self.sockets:
            client.close("the server stops", GOING_AWAY)

    def _check_room(self) -> None:
        if self._is_closed:
            raise Refusal(503, "The server stops")
        if len(self._sockets) >= self._sockets_max:
            reason = f"There are {len(self._sockets)} WebSockets (webSocketMaxConnections): try again later"
            raise Refusal(503, reason, headers={"Retry-After": "1"})

    def _tick_later(self) -> None:
        if self._ticking is None and self._sockets and not self._is_closed:
            idle_s = self.settings.web_socket_session_idle_timeout_millis / 1000
            seconds = min(TICK_SECONDS, idle_s / 4) if idle_s > 0 else TICK_SECONDS
            self._ticking = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        now_s = asyncio.get_running_loop().time()
        for client in self.sockets:
            client.tick(now_s)
        self.unfinished.count()
        self._tick_later()


def _with_token(headers: Mapping[str, str], token: str) -> Mapping[str, str]:
    """Returns the headers to authenticate by. A browser's WebSocket cannot set headers, so the token may stand in the
    query, with or without "Bearer ". When there is a header with a credential, the header is used."""
    if not token or headers.get(AUTHORIZATION_HEADER):
        return headers
    value = token if token.startswith(BEARER) else BEARER + token
    return {**headers, AUTHORIZATION_HEADER: value}


def _check_handshake(request: web.BaseRequest) -> None:
    """Raises Refusal for a request that is not a valid opening handshake (RFC 6455, section 4.2.1)."""
    if request.method != "GET":
        raise Refusal(405, f"{request.method} is not allowed here", headers={"Allow": "GET"})
    if request.headers.get("Upgrade", "").strip().lower() != "websocket":
        raise Refusal(426, "A WebSocket is opened here: the request has to ask for the upgrade", headers=_UPGRADE)
    if not is_handshake(request):
        raise Refusal(400, "The request is no opening handshake of a WebSocket (RFC 6455, section 4.2.1)")


_UPGRADE = {"Upgrade": "websocket"}


def _refusal_of(path: SocketPath, error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, QueryFault):
        return Refusal(400, f"Invalid query params: {error}")
    if isinstance(error, PulsarError):
        status = STATUS_OF_OPENING.get(type(error), 500)
        return Refusal(status, f"Failed to create {path.kind.value}: {error}")
    log.error("a %s could not be opened", path, exc_info=error)
    return Refusal(500, f"Failed to create {path.kind.value}: an error of the server; its log says more")
