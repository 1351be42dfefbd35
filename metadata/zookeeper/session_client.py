"""The asyncio part of a ZooKeeper session: dials servers, passes bytes and times to `session_rules`, and passes results
to the callers.

After a link (a connection to a server) is lost, reads are repeated on the next link. Writes are not repeated blindly:
`LostAnswerRecovery` first finds out which of them happened. Every request has a deadline, every queue has a bound, and
every attempt to connect has a time limit. While no server is reachable, requests wait in order.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence

from magnetar.metadata.errors import (
    MetadataError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreOverloadedError,
    StoreUnavailableError,
    StoreWriteError,
)
from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.client_config import ClientConfig, SessionHooks
from magnetar.metadata.zookeeper.jute_codec import SESSION_GONE
from magnetar.metadata.zookeeper.lost_answer_rules import Write, WriteVerdict
from magnetar.metadata.zookeeper.lost_answers import LostAnswerRecovery
from magnetar.metadata.zookeeper.pending_request import LinkLostError, PendingRequest, Reply, RequestOutcome, Settled
from magnetar.metadata.zookeeper.server_link import ServerLink
from magnetar.metadata.zookeeper.session_rules import (
    SILENCE_PART,
    Attached,
    Attachment,
    Notification,
    ProtocolError,
    ZkAnswer,
    ZkSession,
    ZkSessionState,
    backoff_seconds,
)

log = logging.getLogger(__name__)

FRAME_BYTES_MAX = 0xFFFFF
"""ZooKeeper's jute.maxbuffer. A server cuts the link of a client that sends a longer frame."""

IN_FLIGHT_MAX = 1000
"""How many sent requests may be unanswered: as many as ZooKeeper's globalOutstandingLimit. Further requests wait."""
IN_FLIGHT_BYTES_MAX = 8 << 20
WAITING_MAX = 65_536
"""How many requests may wait to be sent. A further one is refused with StoreOverloadedError."""

DIAL_SECONDS_MAX = 6.0
TICK_SECONDS = 0.25
CLOSE_SECONDS = 2.0
DRAIN_SECONDS_MAX = 10.0


class ZkClient:
    """A client that has one session at a time, and replaces an expired session by a new one. `open` connects the
    client."""

    def __init__(self, config: ClientConfig, hooks: SessionHooks, rng: random.Random) -> None:
        self._config = config
        self._hooks = hooks
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._servers = list(config.servers)
        rng.shuffle(self._servers)
        self._dialled = 0
        self._session: ZkSession[PendingRequest] = ZkSession(config.session_timeout_ms)
        self._link: ServerLink | None = None
        self._answered_at = 0.0
        self._out: list[bytes] = []
        self._waiting: deque[PendingRequest] = deque()
        self._lost: list[PendingRequest] = []
        """Requests that were sent on an earlier link, in order, and are not judged yet."""
        self._recovering: asyncio.Task[None] | None = None
        self._first_attach: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        self._drained: asyncio.Future[None] | None = None
        self._runner: asyncio.Task[None] | None = None
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)

    async def open(self) -> None:
        """Connects. Raises StoreUnavailableError when no server answers within the time of one call."""
        self._runner = self._loop.create_task(self._run())
        self._runner.add_done_callback(_report)
        try:
            async with asyncio.timeout(self._config.call_timeout_seconds):
                await self._first_attach
        except TimeoutError:
            await self.close()
            seconds = self._config.call_timeout_seconds
            raise StoreUnavailableError(self._names(), f"no ZooKeeper server answers within {seconds:g} s") from None
        except asyncio.CancelledError:
            await self.close()
            raise

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_password(self) -> bytes:
        return self._session.password

    @property
    def last_zxid(self) -> int:
        return self._session.last_zxid

    @property
    def is_connected(self) -> bool:
        return self._session.state is ZkSessionState.CONNECTED

    @property
    def is_answering(self) -> bool:
        """Whether the client is connected, and the server is not silent."""
        return self.is_connected and not self._session.is_silent(self._loop.time())

    @property
    def is_closed(self) -> bool:
        return self._closing

    def submit(self, body: bytes, path: str, write: Write | None = None) -> "asyncio.Future[RequestOutcome]":
        """Takes a request, and returns a future with its outcome. Requests happen in the order of these calls.

        Raises StoreOverloadedError, StoreClosedError, and StoreWriteError for a request that is too long. The future
        fails with StoreUnavailableError when a read had no answer in time, with StoreWriteError when a write was never
        sent, and with OutcomeUnknownError when nobody can tell whether a write happened.
        """
        if len(body) + 4 > FRAME_BYTES_MAX:
            raise StoreWriteError(path, f"a request of {len(body)} bytes; ZooKeeper takes {FRAME_BYTES_MAX} at most")
        if self._closing:
            raise StoreClosedError(path, "the store is closed")
        if len(self._waiting) >= WAITING_MAX:
            raise StoreOverloadedError(path, f"{WAITING_MAX} requests are waiting already")
        call = PendingRequest(body, path, self._loop.create_future(), self._deadline(), write=write)
        self._waiting.append(call)
        self._pump()
        return call.future

    def post(self, body: bytes, then: Callable[[Reply], None] | None = None) -> "asyncio.Future[RequestOutcome]":
        """Sends a request at once, and on this link only. The future fails with LinkLostError when the link is lost.

        `then` is called with the answer, in order with the events that the server sends. The caller need not await the
        future.
        """
        call = PendingRequest(body, "/", self._loop.create_future(), self._deadline(), internal=True, then=then)
        if self.is_connected:
            self._send(call)
        else:
            call.fail(LinkLostError())
        return call.future

    def follow(self, body: bytes, then: Callable[[Reply], None] | None = None) -> None:
        """Sends a request as `post` does, but after all waiting requests."""
        call = PendingRequest(body, "/", self._loop.create_future(), self._deadline(), internal=True, then=then)
        self._waiting.append(call)
        self._pump()

    def _deadline(self) -> float:
        return self._loop.time() + self._config.call_timeout_seconds

    async def close(self) -> None:
        """Waits, within a time limit, for the requests that were taken, and ends the session."""
        self._closing = True
        if self._busy() and self._runner is not None and not self._runner.done():
            self._drained = self._loop.create_future()
            limit = min(DRAIN_SECONDS_MAX if self.is_connected else CLOSE_SECONDS, self._config.call_timeout_seconds)
            await asyncio.wait([self._drained], timeout=limit)
        if self.is_connected:
            await asyncio.wait([self.post(zk_codec.close_body())], timeout=CLOSE_SECONDS)
        self._ticker.cancel()
        for task in (self._runner, self._recovering):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._link is not None:
            self._drop(self._link, "the store is closed")
        self._session.close()
        for call in (*self._lost, *self._waiting):
            call.fail(self._gave_up(call, "the store was closed"))
        self._lost.clear()
        self._waiting.clear()

    # Dialling

    async def _run(self) -> None:
        failures = 0
        while True:
            link = await self._dial()
            if link is not None:
                await link.gone
            # A server that accepts the session and closes the link before any answer counts as a failure, too, so that
            # the client does not reconnect without a pause.
            failures = 0 if link is not None and link.has_served else failures + 1
            if failures == len(self._servers):
                log.warning("no session with ZooKeeper, trying on: %s", self._names())
            if failures and failures % len(self._servers) == 0:
                await asyncio.sleep(backoff_seconds(failures // len(self._servers), self._rng.random()))

    async def _dial(self) -> ServerLink | None:
        """Dials the next server. Returns the link, or None when the server did not accept the client, or said that the
        session is over."""
        host, port = self._servers[self._dialled % len(self._servers)]
        self._dialled += 1
        link = ServerLink(f"{host}:{port}", self._received, self._drop)
        session_seconds = self._config.session_timeout_ms / 1000
        limit = min(DIAL_SECONDS_MAX, session_seconds * SILENCE_PART / len(self._servers))
        try:
            async with asyncio.timeout(limit):
                await self._loop.create_connection(lambda: link, host, port)
                if link.is_gone:
                    return None
                self._link = link
                link.write(self._session.dial(self._loop.time()))
                attached = await link.attached
                if attached:
                    return link
        except (OSError, TimeoutError) as error:
            log.debug("ZooKeeper %s:%d: %r", host, port, error)
            self._drop(link, f"no session within {limit:.1f} s")
        except BaseException:
            self._drop(link, "gave up")
            raise
        return None

    def _received(self, link: ServerLink, data: bytes) -> None:
        if link is not self._link:
            return
        try:
            incoming = self._session.receive(data, self._loop.time())
        except ProtocolError as fault:
            self._drop(link, str(fault))
            return
        refused: list[PendingRequest] = []
        for one in incoming:
            if isinstance(one, ZkAnswer):
                if one.error in SESSION_GONE:
                    refused.append(one.call)
                else:
                    link.has_served = True
                    self._answered_at = self._loop.time()
                    one.call.finish(Reply(one.error, one.zxid, one.payload))
            elif isinstance(one, Notification):
                self._hooks.notified(one)
            else:
                self._attached(link, one)
        if refused:
            self._drop(link, "the server says that the session is not its own", refused)
        link.read_on(not self._session.has_more)
        if self._session.has_more:
            self._loop.call_soon(self._received, link, b"")
        self._pump()

    def _attached(self, link: ServerLink, attached: Attached) -> None:
        if attached.how is Attachment.EXPIRED:
            log.warning("ZooKeeper session expired, says %s", link.name)
            self._drop(link, "session expired")
            self._hooks.session(SessionEvent.EXPIRED)
            return
        log.info("ZooKeeper %s: %s session 0x%x", link.name, attached.how.value, self.session_id & (2**64 - 1))
        for scheme, secret in self._config.auth:
            link.write(self._session.authenticate(scheme, secret))
        self._hooks.attached()
        if self._lost:
            self._recovering = self._loop.create_task(self._recover(link))
        if not link.attached.done():
            link.attached.set_result(True)
        if not self._first_attach.done():
            self._first_attach.set_result(None)
        is_new = attached.how is Attachment.NEW
        self._hooks.session(SessionEvent.NEW_SESSION if is_new else SessionEvent.CONNECTED)

    def _drop(self, link: ServerLink, reason: str, refused: Sequence[PendingRequest] = ()) -> None:
        """Gives up the link. Requests that were sent on it and not answered are lost, and so are the `refused` ones."""
        link.abort()
        if link is not self._link:
            return
        self._link = None
        was_connected = self.is_connected
        lost = [*refused, *self._session.lost()]
        self._out.clear()
        if was_connected:
            level = logging.INFO if self._closing else logging.WARNING
            log.log(level, "ZooKeeper %s: disconnected: %s; %d calls wait", link.name, reason, len(lost))
        for call in lost:
            if call.internal:
                call.fail(LinkLostError(reason))
            else:
                call.bound, call.owner = self.last_zxid, self.session_id
        self._lost[:0] = [call for call in lost if not call.internal]
        for call in (each for each in self._waiting if each.internal):
            call.fail(LinkLostError(reason))
        if was_connected and not self._closing:
            self._hooks.session(SessionEvent.DISCONNECTED)

    # Calls

    def _pump(self) -> None:
        """Sends waiting requests until IN_FLIGHT_MAX requests are unanswered."""
        session = self._session
        if session.state is ZkSessionState.CONNECTED and not self._lost:
            while (
                self._waiting and session.in_flight < IN_FLIGHT_MAX and (session.in_flight_bytes < IN_FLIGHT_BYTES_MAX)
            ):
                call = self._waiting.popleft()
                if not call.future.done():
                    self._send(call)
        if self._drained is not None and not self._drained.done() and not self._busy():
            self._drained.set_result(None)

    def _busy(self) -> bool:
        return bool(self._waiting or self._lost or self._session.in_flight)

    def _send(self, call: PendingRequest) -> None:
        now = self._loop.time()
        call.sent_at = now
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(self._session.send(call, call.body, now))

    def _flush(self) -> None:
        if self._link is not None and self._out:
            self._link.write(b"".join(self._out))
        self._out.clear()

    async def _recover(self, link: ServerLink) -> None:
        """Judges the lost requests. Those that did not happen are sent again, in order, before the waiting ones."""
        calls = list(self._lost)
        try:
            findings = await LostAnswerRecovery(self._probe).findings(calls)
        except Exception as error:
            if not isinstance(error, LinkLostError | MetadataError):
                log.exception("ZooKeeper %s: lost calls cannot be settled", link.name)
            self._drop(link, f"recovery broke off: {error}")  # has no effect when the link itself broke
            return
        if link is not self._link:
            return
        self._lost.clear()
        for call, finding in zip(calls, findings, strict=True):
            if call.future.done():
                continue
            if isinstance(finding, Settled):
                call.finish(finding)
            elif finding is WriteVerdict.NOT_APPLIED:
                self._send(call)
            else:
                call.fail(OutcomeUnknownError(call.path, "the answer was lost, and others wrote since"))
        log.info("ZooKeeper %s: %d lost calls settled", link.name, len(calls))
        self._pump()

    async def _probe(self, body: bytes) -> Reply:
        outcome = await self.post(body)
        assert isinstance(outcome, Reply)
        return outcome

    # Time

    def _tick(self) -> None:
        now = self._loop.time()
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)
        for calls in (self._lost, self._waiting, self._session.calls()):
            for call in calls:
                if call.deadline > now:
                    break
                call.fail(self._gave_up(call, f"no answer within {self._config.call_timeout_seconds:g} s"))
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()
        link = self._link
        if link is not None:
            oldest = self._session.oldest()
            patience = min(self._session.timeout_ms / 1000 * SILENCE_PART, self._config.call_timeout_seconds / 2)
            try:
                ping = self._session.due(now)
            except ProtocolError as fault:
                self._drop(link, str(fault))
            else:
                if oldest is not None and now - max(oldest.sent_at, self._answered_at) > patience:
                    self._drop(link, f"no answer for {patience:.1f} s")
                elif ping:
                    link.write(ping)
        self._pump()

    def _gave_up(self, call: PendingRequest, reason: str) -> MetadataError:
        if call.write is None:
            return StoreUnavailableError(call.path, reason)
        if call.sent_at:
            return OutcomeUnknownError(call.path, reason)
        return StoreWriteError(call.path, f"{reason}; it was not sent")

    def _names(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._config.servers)


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("ZooKeeper: dialling ended by a fault of ours", exc_info=task.exception())
