"""Tells when messages were published: the time of any stored message, and the time of a topic's oldest unacknowledged
message."""

from collections.abc import Callable, Iterable

from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import Position
from pulsar_proto.records.payload import broker_entry_metadata, publish_time_of


def published_at(payload: bytes, unknown: int = 0) -> int:
    """Returns the publish time of an entry in ms since the epoch: the broker's time if the broker stored a time with
    the entry, otherwise the producer's time. Returns `unknown` for a payload that cannot be decoded."""
    try:
        noted = broker_entry_metadata(payload)
        if noted is not None and noted.broker_timestamp:
            return noted.broker_timestamp
        return publish_time_of(payload)
    except MalformedFrame:
        return unknown


class OldestMessage:
    """Knows the oldest message of one topic that some durable subscription has not acknowledged. The message is read
    from the log only once, to learn its publish time."""

    __slots__ = ("_cursors", "_ledger", "_position", "_published_ms")

    def __init__(self, ledger: ManagedLedger, cursors: Callable[[], Iterable[Cursor]]) -> None:
        """`cursors()` returns the cursors of the durable subscriptions."""
        self._ledger = ledger
        self._cursors = cursors
        self._position: Position | None = None
        self._published_ms = 0

    async def published_ms(self) -> int | None:
        """Returns when the oldest unacknowledged message was published, in ms since the epoch, or None when all
        messages are acknowledged. Raises ManagedLedgerError when the log cannot be read."""
        position = self._find()
        if position is None:
            return None
        if position != self._position:
            run = await self._ledger.read(position, 1, 1)
            if not run.entries:
                return None
            self._position = position
            self._published_ms = published_at(run.entries[0][run.payload_offset :])
        return self._published_ms

    def known_ms(self) -> int | None:
        """Returns the time of `published_ms` without reading from the log. Returns None when all messages are
        acknowledged, and also when the oldest unacknowledged message has not been read yet."""
        position = self._position
        return self._published_ms if position is not None and position == self._find() else None

    def _find(self) -> Position | None:
        cursors = self._cursors()
        position = min((cursor.next_unacked(cursor.mark_delete) for cursor in cursors), default=None)
        return None if position is None or self._ledger.is_after_last(position) else position


class BacklogAges:
    """Knows the oldest unacknowledged message of each durable subscription of one topic, as of the last `refresh`."""

    __slots__ = ("_by_cursor", "_ledger")

    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._by_cursor: dict[Cursor, OldestMessage] = {}

    async def refresh(self, cursors: Iterable[Cursor]) -> None:
        """Reads the oldest messages of these cursors, as far as they have changed since the last call; all others are
        forgotten. Raises ManagedLedgerError when the log cannot be read."""
        known = self._by_cursor
        self._by_cursor = {
            cursor: known.get(cursor) or OldestMessage(self._ledger, lambda cursor=cursor: [cursor])  # type: ignore[misc]
            for cursor in cursors
            if cursor.backlog
        }
        for oldest in list(self._by_cursor.values()):
            await oldest.published_ms()

    def age_seconds(self, cursor: Cursor, now_ms: int) -> int:
        """Returns the age of the cursor's oldest message: 0 without a backlog, -1 when the age is not known yet."""
        oldest = self._by_cursor.get(cursor)
        known_ms = None if oldest is None else oldest.known_ms()
        if known_ms is None:
            return -1 if cursor.backlog else 0
        return max(0, now_ms - known_ms) // 1000
