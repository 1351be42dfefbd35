"""The settings of a ZooKeeper client, and the callbacks that the client calls."""

from collections.abc import Callable
from dataclasses import dataclass

from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper.session_rules import Notification


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of a ZooKeeper client. `servers` are (host, port) pairs. `auth` are (scheme, credential) pairs,
    which the client sends first on each new link. A link is one TCP connection of the session."""

    servers: tuple[tuple[str, int], ...]
    session_timeout_ms: int = 30_000
    call_timeout_seconds: float = 30.0
    auth: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """The functions that the client calls on the loop. None of them may raise or block.

    The client calls `attached` first on each new link, before it sends the requests that wait.
    """

    attached: Callable[[], None]
    notified: Callable[[Notification], None]
    session: Callable[[SessionEvent], None]
