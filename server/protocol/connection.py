"""The asyncio shell of one client's connection: it reads bytes, passes frames to their handler, and writes bytes.

A connection owns both directions of its socket and the tables of this client's producers and consumers. No rule of the
protocol and no command is in this module: `connection_rules` says which command is legal, and the frames of each read
go, as one list, to the `FrameReceiver` that the connection was made with (`inbound.Inbound`). A "shell" is
such code: it does I/O and leaves all decisions to modules of rules.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from magnetar.server.network.gone_transport import GONE
from magnetar.server.process.detaching import detach_all
from magnetar.server.protocol.connection_rules import (
    CLOSED,
    CONNECTED,
    FIRST_VERSION_WITH_CLOSE_COMMANDS,
    KeepAlive,
    KeepAliveAction,
    RecentlyClosed,
    Session,
)
from magnetar.server.protocol.faults_closing import FaultsClosing
from magnetar.server.protocol.foreign_protocols import describe_opening
from magnetar.server.protocol.output import Output
from magnetar.server.protocol.pending_creations import PendingCreations
from magnetar.server.protocol.publish_window_rules import PublishWindow
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import close_consumer_frame, close_producer_frame, error_frame, ping_frame
from pulsar_proto.wire.framing import Frame, FrameReader

if TYPE_CHECKING:
    from magnetar.server.namespaces.topic_watchers import Watcher
    from magnetar.server.protocol.client_traffic import ClientTraffic
    from magnetar.server.protocol.frame_receiver import FrameReceiver
    from magnetar.server.protocol.login import Login
    from magnetar.server.security.principals import Principal
    from magnetar.server.topics.publishing.producer import Producer
    from magnetar.server.topics.subscriptions.consumer import Consumer

log = logging.getLogger(__name__)

CLOSE_DEADLINE_SECONDS = 5.0
"""How long a closed connection may take to deliver its last bytes before it is cut off."""

OPENING_BYTES = 16
"""How many bytes of a connection's first read are examined to recognise another protocol."""

_PING = ping_frame()


class Connection(asyncio.BufferedProtocol):
    """The connection of one client. Implements `magnetar.server.topics.client_connection.ClientConnection`."""

    def __init__(self, traffic: "ClientTraffic", inbound: "FrameReceiver", listener_name: str = "") -> None:
        """`listener_name` is the name of the advertised listener that belongs to the bind address at which the client
        connected. The name is empty when the client connected at a port that belongs to no listener, such as
        brokerServicePort."""
        limits = traffic.limits
        self.listener_name = listener_name
        self.traffic = traffic
        self.broker = traffic.broker
        self.session = Session()
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.pending_producers = PendingCreations("producer")
        self.pending_consumers = PendingCreations("consumer")
        self.topic_watchers: dict[int, Watcher] = {}
        self.recently_closed = RecentlyClosed(limits.keep_alive_interval_seconds)
        self.publishes = PublishWindow(limits.max_pending_publish_requests_per_connection)
        self.remote_address = ""
        self.remote_ip = ""
        self.principal: Principal | None = None
        """The principal of the peer. None until the login has ended, and always while authentication is off."""
        self.login: Login | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(limits.max_frame_size, traffic.read_scratch)
        self._keep_alive = KeepAlive(limits.keep_alive_interval_seconds, traffic.now())
        self.throttles: set[object] = set()
        self._release_scheduled = False
        self._inbound = inbound
        self._liveness: asyncio.Future[bool] | None = None
        self._cut_off_at = 0.0
        self._taken_at_tick = 0
        self._received_any = False
        self._transport: asyncio.Transport
        self._output: Output

    # --- asyncio's calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass
        peer = transport.get_extra_info("peername")
        self.remote_ip = str(peer[0]) if peer else "unknown"
        self.remote_address = f"/{f'[{peer[0]}]' if ':' in peer[0] else peer[0]}:{peer[1]}" if peer else "/unknown"
        self._output = Output(
            self._loop, self._transport, self._writable_changed, self._cut_off, self.traffic.output_budget.added
        )
        refusal = self.traffic.admit(self)
        if refusal is not None:
            self.write(error_frame(NO_REQUEST_ID, pb.NotAllowedError, refusal))
            self.close(refusal, logging.WARNING)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        with self.faults_closing():
            try:
                frames = self._reader.received(nbytes)
            except MalformedFrame as error:
                self._received_malformed(error, nbytes)
                return
            self._received_any = True
            if frames:
                self._heard(frames)

    def faults_closing(self) -> FaultsClosing:
        """Returns a context manager for the handling of the peer's bytes: an error that is raised inside closes this
        connection, and no other."""
        return FaultsClosing(self)

    def eof_received(self) -> None:
        """Returns None, so asyncio closes the transport: a peer that has ended its side gets no answers either."""

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            self._become_closed(f"closed by the peer ({exc})" if exc else "closed by the peer", logging.INFO)
        finally:
            self.traffic.leave(self)
            self.traffic.output_budget.left(self._output)
            self._output.lost()
            self._transport = GONE

    def pause_writing(self) -> None:
        self._output.pause()

    def resume_writing(self) -> None:
        self._output.resume()

    # --- inbound ---------------------------------------------------------------------------------------------------

    def _heard(self, frames: list[Frame], then: Callable[[], None] | None = None) -> None:
        self._keep_alive.heard()
        if self._liveness is not None and not self._liveness.done():
            self._liveness.set_result(True)
        self._inbound.take(self, frames, then)

    def _received_malformed(self, error: MalformedFrame, nbytes: int) -> None:
        """Handles the sound frames before the malformed frame, then closes the connection without an answer
        (PulsarDecoder)."""
        opening = b""
        if not self._received_any:
            shown = min(nbytes, OPENING_BYTES)
            opening = bytes(self._reader.get_buffer(-1)[:shown])
        reason = describe_opening(opening) or str(error)
        self._heard(list(error.frames), lambda: self.close(reason, logging.WARNING))

    # --- ClientConnection ------------------------------------------------------------------------------------------

    @property
    def client_version(self) -> str:
        return self.session.client_version

    @property
    def protocol_version(self) -> int:
        return self.session.protocol_version

    @property
    def is_open(self) -> bool:
        return self.session.state is not CLOSED

    @property
    def is_writable(self) -> bool:
        return self._output.is_writable

    def when_writable(self, callback: Callable[[], None]) -> None:
        if self.is_open:
            self._output.when_writable(callback)

    def write(self, data: bytes) -> None:
        if self.session.state is CLOSED:
            return
        self._output.write(data)
        # The data may hold receipts, which make room in this connection's window and in the budget of all connections.
        if (self.throttles or self.traffic.waiting_for_budget) and not self._release_scheduled:
            self._schedule_release()

    def write_frames(self, chunks: list[bytes]) -> None:
        if self.session.state is not CLOSED:
            self._output.write_frames(chunks)

    def throttle_reading(self, key: object) -> None:
        if not self.throttles and self.is_open and not self._transport.is_closing():
            self._transport.pause_reading()
        self.throttles.add(key)

    def release_reading(self, key: object) -> None:
        if key not in self.throttles:
            return
        self.throttles.discard(key)
        if not self.throttles and self.is_open and not self._transport.is_closing():
            self._transport.resume_reading()

    def close_producer(self, producer_id: int) -> None:
        if self.producers.pop(producer_id, None) is None or not self.is_open:
            return
        self.recently_closed.add(producer_id, self.traffic.now())
        if self.protocol_version < FIRST_VERSION_WITH_CLOSE_COMMANDS:
            self.close("a producer was closed; the client is too old to be told")
            return
        self.write(close_producer_frame(producer_id, NO_REQUEST_ID))

    def close_consumer(self, consumer_id: int) -> None:
        if self.consumers.pop(consumer_id, None) is None or not self.is_open:
            return
        if self.protocol_version < FIRST_VERSION_WITH_CLOSE_COMMANDS:
            self.close("a consumer was closed; the client is too old to be told")
            return
        self.write(close_consumer_frame(consumer_id, NO_REQUEST_ID))

    async def check_liveness(self) -> bool:
        """Sends PING and returns whether any command comes within connectionLivenessCheckTimeoutMillis. If no command
        comes, the connection is closed (ServerCnx.checkConnectionLiveness). With a timeout of 0 or less no PING is
        sent, and an open connection counts as alive. A peer from which this broker does not read at the moment counts
        as alive, too."""
        timeout_ms = self.traffic.limits.connection_liveness_check_timeout_millis
        if not self.is_open or timeout_ms <= 0:
            return self.is_open
        if self._liveness is None or self._liveness.done():
            self._liveness = self._loop.create_future()
            self.write(_PING)
            expiry = self._loop.call_later(timeout_ms / 1000, self._liveness_expired, self._liveness)
            self._liveness.add_done_callback(lambda _: expiry.cancel())
        return await asyncio.shield(self._liveness)

    def close(self, reason: str, level: int = logging.INFO) -> None:
        """Closes the connection when the written output is delivered. `tick` cuts off a peer that does not take this
        output in time."""
        if not self.is_open:
            return
        self._output.flush()
        self._become_closed(reason, level)
        self._transport.close()

    def peer_certificate(self) -> Mapping[str, Any] | None:
        """Returns the client's certificate in the form of `SSLObject.getpeercert`; the handshake has verified it.
        Returns None without TLS, and for a client without a certificate."""
        certificate: Mapping[str, Any] | None = self._transport.get_extra_info("peercert")
        return certificate

    # --- for handlers and the listener -------------------------------------------------------------------------------

    def published(self, count: int, size_bytes: int) -> None:
        """Counts SENDs that were handed to their producers. Stops reading when too many SENDs of this connection, or
        too many bytes of all connections, wait for their receipts."""
        if not self.is_open:
            return  # Publishing has closed this connection.
        self.traffic.counters.uses += 1
        publishes = self.publishes
        if not publishes.unanswered_count:
            self.traffic.publishing.add(self)
        publishes.add(count, size_bytes)
        fits = self.traffic.budget.take(size_bytes)
        if publishes.may_be_full:
            self.settle_publishes()
            if publishes.is_full:
                self.throttle_reading(publishes)
        if not fits:
            self.traffic.waiting_for_budget.add(self)
            self.throttle_reading(self.traffic.budget)

    def settle_publishes(self) -> None:
        """Asks the producers how many SENDs are unanswered, and gives the bytes of the answered ones back to the
        budget."""
        if self.publishes.unanswered_count:
            pending = 0
            for producer in self.producers.values():
                pending += producer.pending
            self._settle(pending)

    def abort(self) -> None:
        """Closes the socket at once. Output that was not delivered is lost."""
        self._cut_off("cut off")

    def tick(self, now_s: float) -> None:
        """Called by the listener's sweep every few seconds. This method sends PING, closes a connection that shows no
        life or takes no output, and checks whether throttled reading can go on, because a topic that drops SENDs does
        not report that."""
        if not self.is_open:
            if now_s >= self._cut_off_at:
                self._transport.abort()
            return
        if self.throttles:
            self._release_if_answered()
        action = self._keep_alive.tick(now_s, self.session.state, bool(self.throttles))
        if action is KeepAliveAction.NOTHING:
            return
        if action is KeepAliveAction.CLOSE:
            connected = self.session.state is CONNECTED
            self.close("no answer to PING" if connected else "no CONNECT in time")
            return
        taken = self._output.taken_bytes
        if not self._output.is_writable and taken == self._taken_at_tick:
            self._cut_off(f"took nothing of {self._output.held_bytes} bytes in a keep-alive interval")
            return
        self._taken_at_tick = taken
        self.write(_PING)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _become_closed(self, reason: str, level: int) -> None:
        """Ends the connection; no other place does so. Writes one log line, and removes everything of the connection
        from topics."""
        if not self.session.close():
            return
        log.log(level, "%s: connection closed: %s", self.remote_address, reason)
        self._cut_off_at = self.traffic.now() + CLOSE_DEADLINE_SECONDS
        self._output.forget()
        self.pending_producers.abandon_all()
        self.pending_consumers.abandon_all()
        producers, self.producers = self.producers, {}
        consumers, self.consumers = self.consumers, {}
        every: list[Producer | Consumer] = [*producers.values(), *consumers.values()]
        detach_all([each.close for each in every], self.remote_address, self.broker.spawn)
        watchers, self.topic_watchers = self.topic_watchers, {}
        for watcher in watchers.values():
            self.broker.watchers.remove(watcher)
        self._inbound.forget()
        if self.login is not None:
            self.login.close()
            self.login = None
        self._reader.forget()
        if self._liveness is not None and not self._liveness.done():
            self._liveness.set_result(False)
        self.traffic.waiting_for_budget.discard(self)
        self._settle(0)
        self.traffic.budget_may_have_room()

    def _settle(self, pending: int) -> None:
        self.traffic.budget.free(self.publishes.settle(pending))
        if not pending:
            self.traffic.publishing.discard(self)

    def _cut_off(self, reason: str) -> None:
        self._become_closed(reason, logging.WARNING)
        self._transport.abort()

    def _writable_changed(self, writable: bool) -> None:
        """Stops reading while the peer does not take its output, so that a client cannot ask for more and more answers
        that it does not read."""
        if writable:
            self.release_reading(self._output)
        else:
            self.throttle_reading(self._output)

    def _schedule_release(self) -> None:
        """Schedules the check for the next turn of the loop, because at the end of this turn all producers have counted
        the receipts that were just written."""
        self._release_scheduled = True
        self._loop.call_soon(self._release_if_answered)

    def _release_if_answered(self) -> None:
        self._release_scheduled = False
        if not self.is_open:
            return
        self.settle_publishes()
        if self.publishes in self.throttles and self.publishes.is_half_free:
            self.release_reading(self.publishes)
        self.traffic.budget_may_have_room()

    def _liveness_expired(self, check: "asyncio.Future[bool]") -> None:
        if check.done():
            return
        if self.throttles:
            check.set_result(True)  # While nothing is read, silence proves nothing.
            return
        check.set_result(False)
        self.close("no answer to the liveness check")
