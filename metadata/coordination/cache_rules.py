"""Decides which copies of records are outdated, without I/O.

A copy is stale from the moment a change of its record is heard until a read that began after that has come back. When
two reads of one record overlap, the answer of the read that began later is kept.
"""

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from magnetar.metadata.store import EventType, RecordEvent, Stat

T = TypeVar("T")


class Copy(NamedTuple, Generic[T]):
    """A record as it was read last."""

    value: T
    stat: Stat


class Reading:
    """A read that is under way."""

    __slots__ = ("began", "is_overtaken", "path")

    def __init__(self, path: str, began: int) -> None:
        self.path = path
        self.began = began
        self.is_overtaken = False
        """Whether a change was heard meanwhile, so that the answer may be outdated."""


class Answer(Generic[T]):
    """The answer of a read; `copy` is None when there was no record."""

    __slots__ = ("began", "copy", "is_stale")

    def __init__(self, copy: Copy[T] | None, began: int, is_stale: bool) -> None:
        self.copy = copy
        self.began = began
        self.is_stale = is_stale


class CopyTable(Generic[T]):
    """The answers of the reads below one root."""

    def __init__(self, root: str, cached_max: int | None) -> None:
        """A table with more than `cached_max` answers drops the least recently used one. With None no answer is
        dropped, and the answer that a record does not exist is not kept."""
        self._root = root
        self._entries_max = cached_max
        self._dropped: list[str] = []
        self._entries: OrderedDict[str, Answer[T]] = OrderedDict()
        """The answers by path; the one that was used last is the last one."""
        self._readings: dict[str, set[Reading]] = {}
        self._ticks = 0

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def dropped(self) -> list[str]:
        """Returns the paths whose copies were dropped for lack of room since the last call."""
        dropped = list(self._dropped)
        self._dropped.clear()
        return dropped

    def entry(self, path: str) -> Answer[T] | None:
        """Returns the answer of the last read, stale or not; None when the path was not read."""
        entry = self._entries.get(path)
        if entry is not None:
            self._entries.move_to_end(path)
        return entry

    def find(self, path: str) -> Copy[T] | None:
        """Returns the copy, stale or not."""
        entry = self.entry(path)
        return None if entry is None else entry.copy

    def is_stale(self, path: str) -> bool:
        entry = self._entries.get(path)
        return entry is not None and entry.is_stale

    def begin(self, path: str) -> Reading:
        """Notes that a read begins. The caller must call `end` when the read is over."""
        self._ticks += 1
        reading = Reading(path, self._ticks)
        self._readings.setdefault(path, set()).add(reading)
        return reading

    def end(self, reading: Reading) -> None:
        """Notes that a read is over, with or without an answer."""
        readings = self._readings.get(reading.path)
        if readings is not None:
            readings.discard(reading)
            if not readings:
                del self._readings[reading.path]

    def answered(self, reading: Reading, copy: Copy[T] | None) -> bool:
        """Takes the answer of a read. Returns whether the table has changed: the answer is the first one for the path,
        or differs from the earlier copy."""
        entry = self._entries.get(reading.path)
        if entry is None:
            if copy is None and self._entries_max is None:
                return False
            self._entries[reading.path] = Answer(copy, reading.began, reading.is_overtaken)
            if self._entries_max is not None and len(self._entries) > self._entries_max:
                self._dropped.append(self._entries.popitem(last=False)[0])
            return True
        if entry.began > reading.began:
            return False
        is_change = entry.copy != copy
        if copy is None and self._entries_max is None:
            del self._entries[reading.path]
        entry.copy, entry.began, entry.is_stale = copy, reading.began, reading.is_overtaken
        return is_change

    def heard(self, event: RecordEvent) -> list[str]:
        """Takes an event of the root's recursive watch; returns the paths whose copies are stale now.

        CHANGED of the root itself stands for any change below it (`MetadataStore.watch`).
        """
        if event.type is EventType.CHILDREN_CHANGED:
            return []
        if event.path != self._root:
            return self.changed(event.path)
        for path in {*self._entries, *self._readings}:
            self.changed(path)
        return list(self._entries)

    def changed(self, path: str) -> list[str]:
        """Notes that a record has changed; returns its path if there is a copy, which is stale now."""
        for reading in self._readings.get(path, ()):
            reading.is_overtaken = True
        entry = self._entries.get(path)
        if entry is None:
            return []
        entry.is_stale = True
        return [path]

    def drop(self, path: str) -> None:
        """Removes the copy of a record that the caller has changed."""
        self.changed(path)
        self._entries.pop(path, None)
