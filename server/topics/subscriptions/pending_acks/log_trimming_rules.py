"""Decides which part of a pending-ack log is needed no more. Does no I/O.

The log repairs what a crash loses of the subscription's cursor, whose acknowledgements are stored some time after they
were made. So a record is needed until the cursor's stored mark-delete position has passed all messages that the records
before it and itself are about. Source: MLPendingAckStore.clearUselessLogData.
"""

from collections import deque
from typing import NamedTuple

from pulsar_proto.ids import EARLIEST, Position


class _Stretch(NamedTuple):
    """Consecutive records of the log."""

    last: Position
    """The position of the last record in the log."""
    reach: Position
    """The largest position of a message that the records are about."""


class LogIndex:
    """Knows for each stretch of the log which messages it is about. A stretch has `records_min` records or more, so
    that the index of a log of a million records is small."""

    __slots__ = ("_last", "_reach", "_records", "_records_min", "_stretches")

    def __init__(self, records_min: int) -> None:
        self._records_min = records_min
        self._stretches: deque[_Stretch] = deque()
        self._records = 0
        """How many records there are behind the last stretch."""
        self._reach = EARLIEST
        self._last = EARLIEST

    @property
    def last(self) -> Position:
        """The position of the log's last record, EARLIEST if there is none."""
        return self._last

    def add(self, position: Position, reach: Position) -> None:
        """Notes a record at a position of the log, not before that of the last one, that is about messages up to
        `reach`, EARLIEST for a record that names no messages. The records of one entry have one position, and belong to
        one stretch."""
        if self._records >= self._records_min and position != self._last:
            self._stretches.append(_Stretch(self._last, self._reach))
            self._records, self._reach = 0, EARLIEST
        self._last = position
        self._records += 1
        self._reach = max(self._reach, reach)

    def take_passed(self, mark_delete: Position) -> Position | None:
        """Forgets the stretches at the beginning of the log that the mark-delete position has passed. Returns the
        position of their last record, or None when there is no such stretch."""
        passed = None
        while self._stretches and self._stretches[0].reach <= mark_delete:
            passed = self._stretches.popleft().last
        return passed
