"""Decides which command is legal in which state, and what a connection must do as time passes: this module has no
sockets, no tasks and no clock.

Theory of operation. A client's connection is in one of four states. `Session.judge(command type)` says what the shell,
which is `connection.Connection`, must do with a command: hand it to its handler, drop it, or close the connection
without an answer. Judging changes nothing. The state changes only in `begin` (CONNECT came, its credentials are being
judged), `accept` (CONNECT was answered with CONNECTED) and `close`. Times are given as seconds of any monotonic clock.

            begin                     accept                close
    START ---------> AUTHENTICATING ---------> CONNECTED ---------> CLOSED
      |                                            ^                  ^
      +---- accept, while authentication is off ---+     close, from any state

Sources: ServerCnx and PulsarDecoder close a connection without an ERROR for any command but CONNECT, AUTH_RESPONSE,
PING and PONG before Connected, for a second CONNECT, for a command that only brokers send, and for an AUTH_RESPONSE
for which no AUTH_CHALLENGE asked. PulsarHandler is the source of the keep-alive, and ServerCnx.recentlyClosedProducers
the source of `RecentlyClosed`.
"""

from enum import Enum
from typing import Final

from pulsar_proto.pb import pulsar_api_pb2 as pb

PROTOCOL_VERSION = 21
"""The newest version of the protocol in Apache's branches. A connection speaks the smaller of this version and the
client's."""

FIRST_VERSION_WITH_CLOSE_COMMANDS = 5
"""The first version of the protocol with CLOSE_PRODUCER and CLOSE_CONSUMER for clients. The connection of an older
client is closed instead."""

RECENTLY_CLOSED_MAX = 100_000
"""How many producer ids one connection remembers as closed by the broker. When there are more, the oldest id is
forgotten, and a SEND with that id closes the connection, from which clients recover."""


class ConnectionState(Enum):
    """The states of a connection, which the module's docstring draws."""

    START = "start"
    AUTHENTICATING = "authenticating"
    """CONNECT came, and its credentials are being judged. Without authentication this state is left out."""
    CONNECTED = "connected"
    CLOSED = "closed"


CONNECTED: Final = ConnectionState.CONNECTED
CLOSED: Final = ConnectionState.CLOSED
"""The states that code asks for with each command and each write, by names of their own: Python looks up a member of an
Enum ten times slower than a name of the module."""


class CommandVerdict(Enum):
    """The action that the shell must take on a command."""

    HANDLE = "handle"
    IGNORE = "ignore"
    """Drop the command without an answer."""
    CLOSE = "close"
    """Close the connection without an answer."""


HANDLE: Final = CommandVerdict.HANDLE


class IllegalTransitionError(Exception):
    """Raised when the shell changes the state where that is not allowed. This is a bug of Magnetar."""


_Type = pb.BaseCommand

BEFORE_CONNECTED = frozenset({_Type.CONNECT, _Type.PING, _Type.PONG})

WHILE_AUTHENTICATING = frozenset({_Type.PING, _Type.PONG})

CLIENT_COMMANDS = frozenset(
    {
        _Type.AUTH_RESPONSE,
        _Type.SUBSCRIBE,
        _Type.PRODUCER,
        _Type.SEND,
        _Type.ACK,
        _Type.FLOW,
        _Type.UNSUBSCRIBE,
        _Type.CLOSE_PRODUCER,
        _Type.CLOSE_CONSUMER,
        _Type.PING,
        _Type.PONG,
        _Type.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        _Type.PARTITIONED_METADATA,
        _Type.LOOKUP,
        _Type.CONSUMER_STATS,
        _Type.SEEK,
        _Type.GET_LAST_MESSAGE_ID,
        _Type.GET_TOPICS_OF_NAMESPACE,
        _Type.GET_SCHEMA,
        _Type.GET_OR_CREATE_SCHEMA,
        _Type.NEW_TXN,
        _Type.ADD_PARTITION_TO_TXN,
        _Type.ADD_SUBSCRIPTION_TO_TXN,
        _Type.END_TXN,
        _Type.END_TXN_ON_PARTITION,
        _Type.END_TXN_ON_SUBSCRIPTION,
        _Type.TC_CLIENT_CONNECT_REQUEST,
        _Type.WATCH_TOPIC_LIST,
        _Type.WATCH_TOPIC_LIST_CLOSE,
    }
)

FROM_5_0 = frozenset(range(70, 82))
"""Commands of Pulsar 5.0 for scalable topics and for finding transaction coordinators. Clients send them only to a
broker that advertises these features in its FeatureFlags, which this broker does not."""

LEGAL: dict[ConnectionState, frozenset[int]] = {
    ConnectionState.START: BEFORE_CONNECTED,
    ConnectionState.AUTHENTICATING: WHILE_AUTHENTICATING,
    ConnectionState.CONNECTED: CLIENT_COMMANDS,
    ConnectionState.CLOSED: frozenset(),
}


class Session:
    """The state machine of one connection."""

    __slots__ = ("client_version", "protocol_version", "state")

    def __init__(self) -> None:
        self.state = ConnectionState.START
        self.client_version = ""
        self.protocol_version = 0

    def judge(self, command_type: int) -> CommandVerdict:
        """Returns the action that the shell must take on a command of this type in the present state."""
        if self.state is CONNECTED and command_type in CLIENT_COMMANDS:
            return HANDLE  # the usual case, without the look-up of a state, which costs more than the rest
        if command_type in LEGAL[self.state]:
            return HANDLE
        if self.state is CLOSED or command_type in FROM_5_0:
            return CommandVerdict.IGNORE
        return CommandVerdict.CLOSE

    def begin(self) -> None:
        """Records that CONNECT came and that its credentials are being judged. Raises IllegalTransitionError outside
        START."""
        if self.state is not ConnectionState.START:
            raise IllegalTransitionError(f"begin in state {self.state.value}")
        self.state = ConnectionState.AUTHENTICATING

    def accept(self, client_version: str, protocol_version: int) -> None:
        """Records that CONNECT is answered with CONNECTED. Raises IllegalTransitionError outside START and
        AUTHENTICATING."""
        if self.state not in (ConnectionState.START, ConnectionState.AUTHENTICATING):
            raise IllegalTransitionError(f"accept in state {self.state.value}")
        self.state = ConnectionState.CONNECTED
        self.client_version = client_version
        self.protocol_version = min(PROTOCOL_VERSION, max(protocol_version, 0))

    def close(self) -> bool:
        """Ends the session. Returns True when this call has ended the session, False when the session had ended
        before."""
        if self.state is ConnectionState.CLOSED:
            return False
        self.state = ConnectionState.CLOSED
        return True

    def why_illegal(self, command_type: int) -> str:
        """Returns the reason, for the log, why `judge` says CLOSE."""
        name = pb.BaseCommand.Type.Name(pb.BaseCommand.Type.ValueType(command_type))
        if self.state is ConnectionState.START:
            return f"{name} before CONNECT"
        if self.state is ConnectionState.AUTHENTICATING:
            return f"{name} before CONNECTED"
        if command_type == pb.BaseCommand.CONNECT:
            return "a second CONNECT"
        return f"{name} is not for a client to send"


class KeepAliveAction(Enum):
    """The action that the shell must take for the keep-alive."""

    NOTHING = "nothing"
    PING = "ping"
    CLOSE = "close"


class KeepAlive:
    """Says when to send PING, which is once in each interval, and when a connection is dead
    (PulsarHandler.handleKeepAliveTimeout).

    Any command of the peer proves that the peer lives, so the shell must call `heard()` for each read that held a
    command.
    """

    __slots__ = ("_due_s", "_interval_s", "_ping_unanswered")

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._due_s = now_s + interval_s
        self._ping_unanswered = False

    def heard(self) -> None:
        self._ping_unanswered = False

    def tick(self, now_s: float, state: ConnectionState, reading_paused: bool) -> KeepAliveAction:
        """Returns the action that the shell must take now. CLOSE means that the peer has not connected within an
        interval, or has not answered the last PING. While this broker does not read from the peer (`reading_paused`),
        the peer's silence proves nothing, and the peer gets another PING."""
        if now_s < self._due_s or state is ConnectionState.CLOSED:
            return KeepAliveAction.NOTHING
        if state in (ConnectionState.START, ConnectionState.AUTHENTICATING) or (
            self._ping_unanswered and not reading_paused
        ):
            return KeepAliveAction.CLOSE
        self._due_s = now_s + self._interval_s
        self._ping_unanswered = True
        return KeepAliveAction.PING


class RecentlyClosed:
    """The ids of producers that the broker closed within the last keep-alive interval. The client
    may have sent SENDs with these ids before it learned of the closing. Such SENDs are dropped and do not close the
    connection."""

    __slots__ = ("_expires_s", "_interval_s")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._expires_s: dict[int, float] = {}

    def add(self, producer_id: int, now_s: float) -> None:
        """Called when the broker closes a producer."""
        expires = self._expires_s
        # An id that is added again goes to the end, so that the dictionary stays in order of expiry.
        expires.pop(producer_id, None)
        expires[producer_id] = now_s + self._interval_s
        while expires and (len(expires) > RECENTLY_CLOSED_MAX or expires[next(iter(expires))] <= now_s):
            del expires[next(iter(expires))]

    def discard(self, producer_id: int) -> None:
        """Called when the client uses the id for a new producer."""
        self._expires_s.pop(producer_id, None)

    def contains(self, producer_id: int, now_s: float) -> bool:
        return self._expires_s.get(producer_id, now_s) > now_s
