"""What a ZooKeeper client is told, and what it tells of its session."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from magnetar.metadata.zookeeper.session_rules import Notification


class SessionEvent(Enum):
    CONNECTED = "connected"
    """Back in the same session: ephemeral records are still there."""
    DISCONNECTED = "disconnected"
    """The session may end without notice once its time has passed."""
    EXPIRED = "expired"
    """The session is over: its ephemeral records are gone or going."""
    NEW_SESSION = "new_session"
    """Connected in a new session: owners make their ephemeral records again."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """`servers` are (host, port); `auth` are (scheme, credential) pairs, given before anything else on every link."""

    servers: tuple[tuple[str, int], ...]
    session_timeout_ms: int = 30_000
    call_timeout_seconds: float = 30.0
    auth: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called on the loop; must not raise or block. `attached` runs first on each link, ahead of all waiting calls."""

    attached: Callable[[], None]
    notified: Callable[[Notification], None]
    session: Callable[[SessionEvent], None]
