"""Decides, without I/O, which records are watched, which watches the server needs for them, and which events the
callbacks get.

The server has two kinds of persistent watches (addWatch, ZooKeeper 3.6). PERSISTENT reports every event of one record.
PERSISTENT_RECURSIVE reports CREATED, CHANGED and DELETED of a record and of all records below it, but not
CHILDREN_CHANGED. This module adds CHILDREN_CHANGED, because a record that was created or deleted has changed its
parent's list. The server does not repeat events that happened while there was no link; this module derives them from
the state of the records after the reconnect.
"""

from collections import Counter

from magnetar.metadata.record_watches import Watches
from magnetar.metadata.store import CancelWatch, EventType, RecordEvent, WatchCallback
from magnetar.metadata.tree_rules import parent_of
from magnetar.metadata.zookeeper.jute_codec import ZkStat


class ZkWatches:
    """The watches of one store. Paths are the caller's, without the chroot."""

    def __init__(self) -> None:
        self._exact = Watches()
        self._recursive = Watches()
        self._rearmed = Watches()
        """A second registry of the recursive watches. In this registry each watch has its own path only, so that a
        reconnect can be reported to each watch once."""
        self._exact_paths: Counter[str] = Counter()
        self._recursive_paths: Counter[str] = Counter()
        self._there: dict[str, bool] = {}
        """For each record with a watch of this record alone (an exact watch): whether the record exists, if this is
        known."""

    @property
    def exact_paths(self) -> list[str]:
        return list(self._exact_paths)

    @property
    def recursive_paths(self) -> list[str]:
        return list(self._recursive_paths)

    def add(self, path: str, callback: WatchCallback, recursive: bool) -> CancelWatch:
        """Adds a watch; the caller then asks the server to watch the path in the modes `modes(path)`.

        Returns the function that removes the watch. When `modes(path)` is empty after the removal, the caller asks the
        server to remove the server's watches of the path.
        """
        paths = self._recursive_paths if recursive else self._exact_paths
        cancels = [(self._recursive if recursive else self._exact).add(path, callback, recursive)]
        if recursive:
            cancels.append(self._rearmed.add(path, callback, False))
        paths[path] += 1
        armed = True

        def cancel() -> None:
            nonlocal armed
            if not armed:
                return
            armed = False
            for cancel_one in cancels:
                cancel_one()
            paths[path] -= 1
            if not paths[path]:
                del paths[path]
                if not recursive:
                    self._there.pop(path, None)

        return cancel

    def modes(self, path: str) -> list[bool]:
        """Returns the modes in which the server must watch the path, in the order in which to send them. True stands
        for the recursive mode.

        A server before 3.9 keeps only the last mode of a path. Therefore the recursive mode comes last, because it
        covers the exact mode, too.
        """
        return [recursive for recursive in (False, True) if path in self._paths(recursive)]

    def happened(self, event: RecordEvent) -> None:
        """Calls the watches for an event that the server reported."""
        if event.path in self._exact_paths:
            self._there[event.path] = event.type is not EventType.DELETED
        self._exact.fire((event,))
        if event.type is EventType.CHILDREN_CHANGED or not self._recursive_paths:
            return
        self._recursive.fire((event,))
        if event.type is not EventType.CHANGED and event.path != "/":
            self._recursive.fire((RecordEvent(EventType.CHILDREN_CHANGED, parent_of(event.path)),))

    def found(self, path: str, stat: ZkStat | None, bound: int) -> None:
        """Takes the Stat of a record with an exact watch, which was read on a new link. Reports changes after the zxid
        `bound`."""
        if path not in self._exact_paths:
            return
        was_there = self._there.get(path)
        self._exact.fire(RecordEvent(kind, path) for kind in _missed(was_there, stat, bound))
        if path in self._exact_paths:
            self._there[path] = stat is not None

    def overlooked(self, path: str) -> None:
        """Reports, on a new link, that anything at or below a record with a recursive watch may have changed."""
        self._rearmed.fire((RecordEvent(EventType.CHANGED, path),))

    def _paths(self, recursive: bool) -> Counter[str]:
        return self._recursive_paths if recursive else self._exact_paths


def _missed(was_there: bool | None, stat: ZkStat | None, bound: int) -> list[EventType]:
    """Returns the events that a watch would have reported if it had always been armed, as few as possible.

    `was_there` is None when nobody knows whether the record existed.
    """
    if stat is None:
        return [] if was_there is False else [EventType.DELETED]
    kinds = []
    if stat.czxid > bound:
        kinds += [EventType.DELETED, EventType.CREATED] if was_there else [EventType.CREATED]
    if stat.mzxid > max(bound, stat.czxid):
        kinds.append(EventType.CHANGED)
    if stat.pzxid > max(bound, stat.czxid):
        kinds.append(EventType.CHILDREN_CHANGED)
    return kinds
