"""The settings of a ZooKeeper client, and the events that it reports of its session."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from magnetar.metadata.zookeeper.session_rules import Notification


class SessionEvent(Enum):
    """A change of the session's state."""

    CONNECTED = "connected"
    """The client is back in the same session: its ephemeral records are still there."""
    DISCONNECTED = "disconnected"
    """The link is lost. The session may end without notice once its time has passed."""
    EXPIRED = "expired"
    """The session is over: its ephemeral records are gone, or will go."""
    NEW_SESSION = "new_session"
    """The client is connected in a new session: owners have to make their ephemeral records again."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of a ZooKeeper client. `servers` are (host, port) pairs. `auth` are (scheme, credential) pairs,
    which are sent first on every link."""

    servers: tuple[tuple[str, int], ...]
    session_timeout_ms: int = 30_000
    call_timeout_seconds: float = 30.0
    auth: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """The functions that the client calls on the loop. None of them may raise or block.

    `attached` is called first on each new link, ahead of all requests that wait.
    """

    attached: Callable[[], None]
    notified: Callable[[Notification], None]
    session: Callable[[SessionEvent], None]
