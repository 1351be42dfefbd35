"""The requests that are under way, the batches to which they belong, and the interface of the connections that sent
them."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from magnetar.metadata.zookeeper_server.read_requests import Slow, Watcher
from magnetar.metadata.zookeeper_server.session_rules import Session
from magnetar.metadata.zookeeper_server.staging_rules import Txn


class Client(Watcher, Protocol):
    """The processor uses each connection through this interface."""

    waiting: int
    """How many requests of this connection are under way."""
    is_closed: bool
    """Whether the connection is gone, so that no client waits for an answer."""

    def hold_for(self, xid: int, zxid: int, fields: Slow) -> None:
        """Sends an answer whose fields take long to make. All later frames wait behind this answer."""

    def attached(self, session: Session) -> None:
        """Tells the client that its session exists, and begins to read the client's requests."""

    def refused(self) -> None:
        """Tells the client that its session is over, and closes the connection."""

    def answered(self) -> None:
        """Notes that a request that was under way has been answered."""

    def end(self) -> None:
        """Sends the frames that are left to send and closes the connection."""


class Entry(NamedTuple):
    """One request in a batch: its changes, and the answer to its sender."""

    client: Client | None
    txn: Txn | None
    reply: "bytes | Callable[[], None]"
    size: int


class Latency:
    """Statistics of the time that batches took, in milliseconds, since the last reset. A batch's time begins with its
    first request and ends when all of its requests are answered."""

    def __init__(self) -> None:
        self.least_ms = self.most_ms = self._count = 0
        self._sum = 0.0

    @property
    def average_ms(self) -> float:
        return self._sum / self._count if self._count else 0.0

    def note(self, seconds: float) -> None:
        took_ms = seconds * 1000
        self.least_ms = min(self.least_ms, int(took_ms)) if self._count else int(took_ms)
        self.most_ms = max(self.most_ms, int(took_ms))
        self._count += 1
        self._sum += took_ms


class Batch:
    """Requests whose changes become durable together. Reads that have to wait for earlier writes of their session are
    entries of the batch, too."""

    __slots__ = ("began", "done", "entries", "is_answered", "rows")

    def __init__(self) -> None:
        self.began = 0.0
        self.entries: list[Entry] = []
        self.rows: dict[bytes, bytes] = {}
        self.done = 0
        """The number of entries that are answered."""
        self.is_answered = False
        """Whether all entries are answered, so that no further entry can be added."""
