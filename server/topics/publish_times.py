"""Tells when messages were published: the time of any stored message, and the time of a topic's oldest unacknowledged
message."""

from collections.abc import Iterable
from typing import Protocol

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


async def first_published_at(ledger: ManagedLedger, publish_time_ms: int) -> Position:
    """Returns the position of the first message whose producer's publish time is that time or later, or the end of the
    log when there is no such message. Raises ManagedLedgerError when the log cannot be read."""

    def is_late_enough(payload: bytes) -> bool:
        try:
            return publish_time_of(payload) >= publish_time_ms
        except MalformedFrame:
            return False

    return await ledger.find_first(is_late_enough)


async def published_at_position(ledger: ManagedLedger, position: Position) -> int | None:
    """Returns the publish time of the first entry at or after `position`, or None when there is none. Raises
    ManagedLedgerError when the log cannot be read."""
    run = await ledger.read(position, 1, 1)
    return published_at(run.entries[0][run.payload_offset :]) if run.entries else None


def oldest_position(cursor: Cursor) -> Position:
    """Returns the position of the first entry that the cursor has not acknowledged, which may be beyond the log."""
    return cursor.next_unacked(cursor.mark_delete)


class TopicWithCursors(Protocol):
    """`OldestMessage` uses its topic through this interface."""

    @property
    def ledger(self) -> ManagedLedger: ...

    def durable_cursors(self) -> list[Cursor]:
        """Returns the cursors of the durable subscriptions."""


class OldestMessage:
    """Knows the oldest message of one topic that some durable subscription has not acknowledged. The message is read
    from the log only once, to learn its publish time."""

    __slots__ = ("_position", "_published_ms", "_topic")

    def __init__(self, topic: TopicWithCursors) -> None:
        self._topic = topic
        self._position: Position | None = None
        self._published_ms = 0

    async def published_ms(self) -> int | None:
        """Returns when the oldest unacknowledged message was published, in ms since the epoch, or None when all
        messages are acknowledged. Raises ManagedLedgerError when the log cannot be read."""
        position = self._find()
        if position is None:
            return None
        if position != self._position:
            published_ms = await published_at_position(self._topic.ledger, position)
            if published_ms is None:
                return None
            self._position, self._published_ms = position, published_ms
        return self._published_ms

    def known_ms(self) -> int | None:
        """Returns the time of `published_ms` without reading from the log. Returns None when all messages are
        acknowledged, and also when the oldest unacknowledged message has not been read yet."""
        position = self._position
        return self._published_ms if position is not None and position == self._find() else None

    def known(self) -> dict[Position, int]:
        """Returns the position and the time of the message that was read last, or nothing before the first one."""
        return {} if self._position is None else {self._position: self._published_ms}

    def _find(self) -> Position | None:
        position = min(map(oldest_position, self._topic.durable_cursors()), default=None)
        return None if position is None or self._topic.ledger.is_after_last(position) else position


class BacklogAges:
    """Knows how old the backlogs of one topic's durable subscriptions are, as of the last `refresh`. A message is read
    from the log only once, also when it is the oldest one of several subscriptions."""

    __slots__ = ("_ledger", "_published_ms")

    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._published_ms: dict[Position, int] = {}
        """The publish times of the oldest messages."""

    async def refresh(self, cursors: Iterable[Cursor], oldest: OldestMessage) -> None:
        """Reads the oldest unacknowledged messages of these cursors, as far as they are not known yet. `oldest` is the
        oldest one of all cursors. Raises ManagedLedgerError when the log cannot be read."""
        wanted = {oldest_position(cursor) for cursor in cursors if cursor.backlog}
        known = {**self._published_ms, **oldest.known()}
        self._published_ms = {position: known[position] for position in wanted & known.keys()}
        for position in sorted(wanted - known.keys()):
            published_ms = await published_at_position(self._ledger, position)
            if published_ms is not None:
                self._published_ms[position] = published_ms

    async def published_ms(self, cursor: Cursor) -> int | None:
        """Returns when the cursor's oldest unacknowledged message was published, in ms since the epoch, or None without
        a backlog. Raises ManagedLedgerError when the log cannot be read."""
        if not cursor.backlog:
            return None
        position = oldest_position(cursor)
        if position not in self._published_ms:
            published_ms = await published_at_position(self._ledger, position)
            if published_ms is None:
                return None
            self._published_ms[position] = published_ms
        return self._published_ms[position]

    def are_known(self, cursors: Iterable[Cursor], oldest: OldestMessage) -> bool:
        """Returns whether `refresh` would read nothing."""
        behind = [oldest_position(cursor) for cursor in cursors if cursor.backlog]
        return not behind or (oldest.known_ms() is not None and all(each in self._published_ms for each in behind))

    def age_seconds(self, cursor: Cursor, now_ms: int) -> int:
        """Returns the age of the cursor's oldest message: 0 without a backlog, -1 when the age is not known yet."""
        if not cursor.backlog:
            return 0
        published_ms = self._published_ms.get(oldest_position(cursor))
        return -1 if published_ms is None else max(0, now_ms - published_ms) // 1000
