"""The rules of a ZooKeeper session: a state machine without socket, clock or asyncio.

The caller opens the links (connections to servers), hands in received bytes and times, in seconds of any steady clock,
gets `Incoming` values, and reports when a link is gone. The session's id, password and last zxid outlive every link;
they are dropped only when a server says that the session is over (ClientCnxn.SendThread.primeConnection). `lost`
returns, in order, the requests that were sent and not answered. The caller has to find out whether they happened; this
module never sends a request twice.
"""

import struct
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from magnetar.metadata.store import EventType
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from pulsar_proto.backoff import backoff

REPLY_BYTES_MAX = 64 << 20
"""The longest reply. A longer reply counts as a damaged stream. The limit is far above the limit for requests, because
lists of children are long."""

FRAMES_AT_ONCE = 128
"""How many answers and events one call of `receive` returns. One read of the socket may bring thousands of events, each
of which takes tens of microseconds until all watches have heard of it."""

PING_PART = 1 / 15
SILENT_PART = 1 / 5
SILENCE_PART = 2 / 3
"""Fractions of the session's time. After PING_PART without a request a ping is sent (ZKSessionWatcher asks as often);
after SILENT_PART without input the server counts as silent, so that no work begins that needs its answers; after
SILENCE_PART the link is given up, so that the rest of the time is left for finding another server."""

BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_SECONDS_MAX = 1.0
"""The pause after all servers were tried in vain for the first time, and the longest pause. Each pause is shortened at
random by up to a half."""

NO_PASSWORD = bytes(16)

_LENGTH = struct.Struct(">I")

CallT = TypeVar("CallT")


class ZkSessionState(Enum):
    """The states of the session; `_MOVES` is the table of transitions."""

    DISCONNECTED = "disconnected"
    HANDSHAKE = "handshake"
    CONNECTED = "connected"
    CLOSED = "closed"


class Attachment(Enum):
    """The outcomes of a handshake."""

    NEW = "new"
    RESUMED = "resumed"
    EXPIRED = "expired"


class Attached(NamedTuple):
    """The handshake on a link is over."""

    how: Attachment


class ZkAnswer(NamedTuple, Generic[CallT]):
    """The server answered a request. `payload` are the bytes behind the header."""

    call: CallT
    error: int
    zxid: int
    payload: bytes


class Notification(NamedTuple):
    """The server reports an event of a watched record."""

    type: EventType
    path: str


Incoming = Attached | ZkAnswer[CallT] | Notification


class ProtocolError(Exception):
    """The server's bytes make no sense, or an answer is missing. The caller has to close the link."""


class IllegalEventError(Exception):
    """A bug in Magnetar: the method must not be called in the present state of the session."""


_MOVES = {
    (ZkSessionState.DISCONNECTED, "dial"): ZkSessionState.HANDSHAKE,
    (ZkSessionState.HANDSHAKE, "attach"): ZkSessionState.CONNECTED,
    (ZkSessionState.HANDSHAKE, "lose"): ZkSessionState.DISCONNECTED,
    (ZkSessionState.CONNECTED, "lose"): ZkSessionState.DISCONNECTED,
    (ZkSessionState.DISCONNECTED, "lose"): ZkSessionState.DISCONNECTED,
    (ZkSessionState.CLOSED, "lose"): ZkSessionState.CLOSED,
    (ZkSessionState.DISCONNECTED, "close"): ZkSessionState.CLOSED,
    (ZkSessionState.HANDSHAKE, "close"): ZkSessionState.CLOSED,
    (ZkSessionState.CONNECTED, "close"): ZkSessionState.CLOSED,
    (ZkSessionState.CLOSED, "close"): ZkSessionState.CLOSED,
}


class ZkSession(Generic[CallT]):
    """One session, which uses one link after the other. `CallT` is the caller's own type of a request."""

    def __init__(self, timeout_ms: int) -> None:
        self.state = ZkSessionState.DISCONNECTED
        self.wanted_timeout_ms = timeout_ms
        self.timeout_ms = timeout_ms
        """The timeout that the server granted."""
        self.session_id = 0
        self.password = NO_PASSWORD
        self.last_zxid = 0
        """The zxid up to which the client has seen all changes: the events of these changes were delivered, and
        writes that are answered after that point have a higher zxid."""
        self._in_flight: deque[tuple[int, CallT]] = deque()
        self._in_flight_bytes: deque[int] = deque()
        self.in_flight_bytes = 0
        self._last_xid = 0
        self._buffer = bytearray()
        self._sent_at = 0.0
        self._heard_at = 0.0
        self.has_more = False
        """Whether `receive` has left complete frames for its next call."""

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def oldest(self) -> CallT | None:
        """Returns the request whose answer must come next, or None when no request is unanswered."""
        return self._in_flight[0][1] if self._in_flight else None

    def calls(self) -> Iterator[CallT]:
        """Returns the sent requests that are unanswered, in order."""
        return (call for _, call in self._in_flight)

    def dial(self, now: float) -> bytes:
        """Begins the handshake on a link that is open; returns the bytes to send first."""
        self._move("dial")
        self._buffer.clear()
        self._sent_at = self._heard_at = now
        body = zk_codec.connect_body(self.wanted_timeout_ms, self.last_zxid, self.session_id, self.password)
        return zk_codec.frame(body)

    def send(self, call: CallT, body: bytes, now: float) -> bytes:
        """Returns the frame of a request. The answer will come as a `ZkAnswer` with this `call`."""
        self._require(ZkSessionState.CONNECTED)
        self._last_xid = self._last_xid % (2**31 - 1) + 1
        frame = zk_codec.frame(body, self._last_xid)
        self._in_flight.append((self._last_xid, call))
        self._in_flight_bytes.append(len(frame))
        self.in_flight_bytes += len(frame)
        self._sent_at = now
        return frame

    def authenticate(self, scheme: str, credential: bytes) -> bytes:
        """Returns the frame that shows a credential to the server."""
        self._require(ZkSessionState.CONNECTED)
        return zk_codec.frame(zk_codec.auth_body(scheme, credential), zk_codec.AUTH_XID)

    def lost(self) -> list[CallT]:
        """Notes that the link is gone; returns the requests that were sent and not answered, in order."""
        self._move("lose")
        calls = [call for _, call in self._in_flight]
        self._in_flight.clear()
        self._in_flight_bytes.clear()
        self.in_flight_bytes = 0
        self._buffer.clear()
        return calls

    def close(self) -> None:
        """Ends the session. No link may be opened after that."""
        self._move("close")

    def due(self, now: float) -> bytes:
        """Returns a ping if a ping is due, else b"". Raises ProtocolError when the server was silent for too long."""
        if self.state not in (ZkSessionState.CONNECTED, ZkSessionState.HANDSHAKE):
            return b""
        if now - self._heard_at >= self._seconds(SILENCE_PART):
            raise ProtocolError(f"the server said nothing for {now - self._heard_at:.1f} s")
        if self.state is ZkSessionState.CONNECTED and now - self._sent_at >= self._seconds(PING_PART):
            self._sent_at = now
            return zk_codec.frame(zk_codec.ping_body(), zk_codec.PING_XID)
        return b""

    def is_silent(self, now: float) -> bool:
        """Whether the server has sent nothing for SILENT_PART of the session's time. The client sends pings more often
        than that, so a healthy server would have answered a ping by then."""
        return now - self._heard_at >= self._seconds(SILENT_PART)

    def receive(self, data: bytes, now: float) -> list[Incoming[CallT]]:
        """Takes bytes from the server. Returns the answers and events that are complete with these bytes, in order, but
        at most FRAMES_AT_ONCE. If `has_more` is set afterwards, the caller calls again, with or without further bytes,
        after other tasks had their turn. Raises ProtocolError when the bytes make no sense."""
        self._heard_at = now
        self.has_more = False
        buffer = self._buffer
        source: bytes | bytearray = data
        if buffer:
            buffer += data
            source = buffer
        incoming: list[Incoming[CallT]] = []
        offset, end = 0, len(source)
        taken = 0
        while end - offset >= _LENGTH.size:
            if taken == FRAMES_AT_ONCE:
                self.has_more = True
                break
            taken += 1
            (length,) = _LENGTH.unpack_from(source, offset)
            if length > REPLY_BYTES_MAX:
                raise ProtocolError(f"a frame of {length} bytes")
            start = offset + _LENGTH.size
            if end - start < length:
                break
            offset = start + length
            try:
                with memoryview(source) as view:  # a slice of a bytearray would be a copy, and `bytes` a second one
                    frame = bytes(view[start:offset])
                one = self._frame(frame)
            except (struct.error, ValueError, KeyError) as error:
                raise ProtocolError(f"an undecodable frame: {error!r}") from error
            if one is not None:
                incoming.append(one)
        if source is buffer:
            del buffer[:offset]
        elif offset < end:
            buffer += data[offset:]
        return incoming

    def _frame(self, payload: bytes) -> Incoming[CallT] | None:
        if self.state is ZkSessionState.HANDSHAKE:
            return Attached(self._attach(zk_codec.parse_connect_reply(payload)))
        if self.state is not ZkSessionState.CONNECTED:
            raise ProtocolError(f"a frame while {self.state.value}")
        xid, zxid, error = zk_codec.parse_header(payload)
        if self._in_flight and xid == self._in_flight[0][0]:
            _, call = self._in_flight.popleft()
            self.in_flight_bytes -= self._in_flight_bytes.popleft()
            if zxid > 0:
                self.last_zxid = zxid
            return ZkAnswer(call, error, zxid, payload[zk_codec.HEADER_BYTES :])
        if xid == zk_codec.PING_XID:
            return None
        if xid == zk_codec.WATCH_XID:
            kind, path = zk_codec.parse_notification(payload[zk_codec.HEADER_BYTES :])
            return None if kind is None else Notification(kind, path)
        if xid == zk_codec.AUTH_XID:
            if error:
                raise ProtocolError(f"authentication refused ({error})")
            return None
        expected = self._in_flight[0][0] if self._in_flight else "none"
        raise ProtocolError(f"answer {xid} came where {expected} was expected")

    def _attach(self, reply: zk_codec.ConnectReply) -> Attachment:
        if reply.session_id == 0 or reply.timeout_ms <= 0:
            self._move("lose")
            self.session_id, self.password = 0, NO_PASSWORD
            return Attachment.EXPIRED
        how = Attachment.RESUMED if self.session_id else Attachment.NEW
        self._move("attach")
        self.session_id, self.password = reply.session_id, reply.password
        self.timeout_ms = reply.timeout_ms
        return how

    def _seconds(self, part: float) -> float:
        return self.timeout_ms / 1000 * part

    def _require(self, state: ZkSessionState) -> None:
        if self.state is not state:
            raise IllegalEventError(f"the session is {self.state.value}, not {state.value}")

    def _move(self, event: str) -> None:
        target = _MOVES.get((self.state, event))
        if target is None:
            raise IllegalEventError(f"{event} while {self.state.value}")
        self.state = target


def backoff_seconds(rounds: int, chance: float) -> float:
    """Returns the pause after all servers were tried in vain for the `rounds`-th time (from 1 on).

    `chance` is a random number from 0 to 1, so that clients that lost the same server do not reconnect all at once.
    """
    limit = backoff(rounds, BACKOFF_FIRST_SECONDS, BACKOFF_SECONDS_MAX)
    return limit * (0.5 + chance / 2)
