"""Sessions and their expiry, without I/O or clock: the caller hands in times, milliseconds of a monotonic clock.

The deadline of a session is rounded up to the next tick, as in Java's ExpiryQueue, so that many sessions expire
together and are checked together.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeoutBounds:
    """The shortest and the longest session timeout that the server grants, in milliseconds."""

    shortest_ms: int
    longest_ms: int

    def granted(self, wanted_ms: int) -> int:
        return min(max(wanted_ms, self.shortest_ms), self.longest_ms)


class Session:
    """One session. `is_closing` is set as soon as the end of the session is decided; from then on none of its requests
    is taken. `last_batch` belongs to the processor, which uses it to keep the order of the session's requests across
    connections."""

    __slots__ = ("expires_at_ms", "is_closing", "last_batch", "password", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, password: bytes) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.password = password
        self.expires_at_ms = 0
        self.is_closing = False
        self.last_batch: object = None


class SessionTable:
    """All sessions that are not over."""

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self._sessions: dict[int, Session] = {}
        self._by_deadline: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def add(self, session: Session, moment_ms: int) -> None:
        self._sessions[session.session_id] = session
        self._move(session, self._deadline(moment_ms, session.timeout_ms))

    def remove(self, session_id: int) -> Session | None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._forget_deadline(session)
        return session

    def touch(self, session_id: int, timeout_ms: int, moment_ms: int) -> bool:
        """Restarts the timeout of a session. Returns False for a session that is over or about to end."""
        session = self._sessions.get(session_id)
        if session is None or session.is_closing:
            return False
        deadline = self._deadline(moment_ms, timeout_ms)
        if deadline > session.expires_at_ms:
            self._move(session, deadline)
        return True

    def postpone(self, moment_ms: int) -> None:
        """Restarts the timeout of every session, after the server itself could not listen for a while."""
        for session in self._sessions.values():
            self._move(session, max(session.expires_at_ms, self._deadline(moment_ms, session.timeout_ms)))

    def expired(self, moment_ms: int) -> list[Session]:
        """Returns the sessions whose timeout has passed and that are not closing yet, and marks them as closing."""
        over = []
        for deadline in [deadline for deadline in self._by_deadline if deadline <= moment_ms]:
            for session_id in self._by_deadline.pop(deadline):
                session = self._sessions[session_id]
                if not session.is_closing:
                    session.is_closing = True
                    over.append(session)
        return over

    def deadlines(self) -> list[tuple[int, list[int]]]:
        """Returns the coming deadlines, each with the ids of the sessions that expire then."""
        return [(deadline, sorted(ids)) for deadline, ids in sorted(self._by_deadline.items())]

    def _deadline(self, moment_ms: int, timeout_ms: int) -> int:
        return ((moment_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms

    def _move(self, session: Session, deadline: int) -> None:
        self._forget_deadline(session)
        session.expires_at_ms = deadline
        self._by_deadline.setdefault(deadline, set()).add(session.session_id)

    def _forget_deadline(self, session: Session) -> None:
        ids = self._by_deadline.get(session.expires_at_ms)
        if ids is not None:
            ids.discard(session.session_id)
            if not ids:
                del self._by_deadline[session.expires_at_ms]


def first_session_id(wall_clock_ms: int) -> int:
    """Returns the id that a server gives to its first session after a start. This id is greater than all ids that
    earlier starts gave out, as long as the wall clock does not go back (SessionTrackerImpl.initializeNextSessionId)."""
    return 1 << 56 | (wall_clock_ms << 16) & ((1 << 56) - 1)
