"""Knows for how long this broker has had no connection to the metadata store, and whether its session is surely over.

A broker goes on serving meanwhile, as Apache's does: usually the store is away for everybody, sessions end only when a
server can end them, and if another broker does take a topic over, the fence of the topic's ledger stops this one. But a
broker whose session time has passed may be cut off alone, and then others serve its bundles. Readiness, health and
/metrics show that. Source: ZKSessionWatcher, which reports SessionLost after 5/6 of the session's time.
"""

from collections.abc import Callable
from typing import Protocol

from magnetar.metadata.store import CancelWatch, SessionCallback, SessionEvent


class SessionStore(Protocol):
    """The part of a metadata store that tells about its session."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_answering(self) -> bool: ...

    def on_session(self, callback: SessionCallback) -> CancelWatch: ...


class MetadataLink:
    """The broker's connection to its metadata store, as a `StoragePart`. `clock` gives monotonic seconds."""

    fault: str | None = None
    """Always None, since the connection may come back."""

    def __init__(self, store: SessionStore, session_seconds: float, clock: Callable[[], float]) -> None:
        self._session_seconds = session_seconds
        self._clock = clock
        self._store = store
        self._lost_at: float | None = None if store.is_connected else clock()
        store.on_session(self._session_changed)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, and the store has not fallen silent."""
        return self._lost_at is None and self._store.is_answering

    @property
    def away_seconds(self) -> float:
        """For how long there has been no connection; 0 while there is one."""
        return 0.0 if self._lost_at is None else self._clock() - self._lost_at

    @property
    def session_is_over(self) -> bool:
        """Whether a server that works has ended the session by now, so that other brokers may own what this broker
        owned."""
        return self.away_seconds >= self._session_seconds

    @property
    def hindrance(self) -> str | None:
        """The sentence for readiness and health when `session_is_over`, else None."""
        if not self.session_is_over:
            return None
        return f"no connection to the metadata store for {self.away_seconds:.0f} s, so its session is over"

    def _session_changed(self, event: SessionEvent) -> None:
        if event in (SessionEvent.CONNECTED, SessionEvent.NEW_SESSION):
            self._lost_at = None
        elif self._lost_at is None:
            self._lost_at = self._clock()
