"""The tables of watches, without I/O. A watcher is one connection; for the tables it is any hashable object.

A server has two tables, one for the data and the existence of records and one for their children. The same watcher can
watch one path in several modes. Source: WatchManager, WatchStats and DataTree of ZooKeeper 3.9.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Generic, TypeVar

WatcherT = TypeVar("WatcherT")


class WatchMode(IntEnum):
    """Java's WatcherMode. The values are bits, because a watcher may watch a path in several modes."""

    ONCE = 1
    PERSISTENT = 2
    RECURSIVE = 4


ALL_MODES = 7


class WatcherType(IntEnum):
    """Java's Watcher.WatcherType, a field of the requests removeWatches and checkWatches."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class WatchTable(Generic[WatcherT]):
    """One table: the watches of data, or the watches of children."""

    def __init__(self) -> None:
        self._by_path: dict[bytes, dict[WatcherT, int]] = {}
        self._by_watcher: dict[WatcherT, set[bytes]] = {}
        self._recursive = 0

    def add(self, path: bytes, watcher: WatcherT, mode: WatchMode) -> None:
        watchers = self._by_path.setdefault(path, {})
        modes = watchers.get(watcher, 0)
        if not modes & mode:
            watchers[watcher] = modes | mode
            self._recursive += mode == WatchMode.RECURSIVE
            self._by_watcher.setdefault(watcher, set()).add(path)

    def trigger(self, path: bytes) -> list[WatcherT]:
        """Returns the watchers that get an event of this record. Watches for one event are removed."""
        watchers = self._by_path.get(path)
        if not self._recursive:
            return self._fire(path, watchers) if watchers else []
        told = self._fire(path, watchers) if watchers else []
        for ancestor in _ancestors(path):
            above = self._by_path.get(ancestor)
            if above is not None:
                told += [one for one, modes in above.items() if modes & WatchMode.RECURSIVE and one not in told]
        return told

    def has(self, path: bytes, watcher: WatcherT, modes: int = ALL_MODES) -> bool:
        return self._by_path.get(path, {}).get(watcher, 0) & modes != 0

    def remove(self, path: bytes, watcher: WatcherT, modes: int = ALL_MODES) -> bool:
        """Removes the watches of these modes. Returns whether there was any."""
        watchers = self._by_path.get(path)
        before = 0 if watchers is None else watchers.get(watcher, 0)
        if watchers is None or not before & modes:
            return False
        self._recursive -= before & modes & WatchMode.RECURSIVE != 0
        self._set(path, watchers, watcher, before & ~modes)
        return True

    def remove_watcher(self, watcher: WatcherT) -> None:
        """Removes all watches of a connection that is gone."""
        for path in self._by_watcher.pop(watcher, ()):
            watchers = self._by_path[path]
            self._recursive -= watchers.pop(watcher) & WatchMode.RECURSIVE != 0
            if not watchers:
                del self._by_path[path]

    def counts(self) -> tuple[int, int, int]:
        """Returns how many connections watch, how many paths are watched, and how many watches there are."""
        return len(self._by_watcher), len(self._by_path), sum(map(len, self._by_watcher.values()))

    def paths_of(self) -> Iterator[tuple[WatcherT, set[bytes]]]:
        return iter(self._by_watcher.items())

    def watchers_of(self) -> Iterator[tuple[bytes, dict[WatcherT, int]]]:
        return iter(self._by_path.items())

    def _fire(self, path: bytes, watchers: dict[WatcherT, int]) -> list[WatcherT]:
        told = list(watchers)
        for watcher in told:
            modes = watchers[watcher]
            if modes & WatchMode.ONCE:
                self._set(path, watchers, watcher, modes & ~WatchMode.ONCE)
        return told

    def _set(self, path: bytes, watchers: dict[WatcherT, int], watcher: WatcherT, modes: int) -> None:
        if modes:
            watchers[watcher] = modes
            return
        del watchers[watcher]
        if not watchers:
            del self._by_path[path]
        paths = self._by_watcher[watcher]
        paths.discard(path)
        if not paths:
            del self._by_watcher[watcher]


class Watches(Generic[WatcherT]):
    """Both tables of a server."""

    def __init__(self) -> None:
        self.data: WatchTable[WatcherT] = WatchTable()
        self.children: WatchTable[WatcherT] = WatchTable()

    def add_persistent(self, path: bytes, watcher: WatcherT, *, recursive: bool) -> None:
        """Adds a watch that lasts until it is removed. A recursive watch gets no events of children lists, because it
        gets the events of the child records themselves."""
        if recursive:
            self.data.add(path, watcher, WatchMode.RECURSIVE)
        else:
            self.data.add(path, watcher, WatchMode.PERSISTENT)
            self.children.add(path, watcher, WatchMode.PERSISTENT)

    def deleted(self, path: bytes) -> list[WatcherT]:
        """Returns the watchers to which the deletion of a record is reported. Each watcher is in the list once, even if
        it watches both the record and its children."""
        told = self.data.trigger(path)
        return told + [one for one in self.children.trigger(path) if one not in told]

    def contains(self, path: bytes, watcher: WatcherT, kind: WatcherType) -> bool:
        """Returns whether there is such a watch (DataTree.containsWatcher)."""
        match kind:
            case WatcherType.CHILDREN:
                return self.children.has(path, watcher, WatchMode.ONCE)
            case WatcherType.DATA:
                return self.data.has(path, watcher, WatchMode.ONCE)
            case WatcherType.PERSISTENT:
                return self.data.has(path, watcher, WatchMode.PERSISTENT)
            case WatcherType.PERSISTENT_RECURSIVE:
                return self.data.has(path, watcher, WatchMode.RECURSIVE)
            case WatcherType.ANY:
                return self.children.has(path, watcher) or self.data.has(path, watcher)

    def remove(self, path: bytes, watcher: WatcherT, kind: WatcherType) -> bool:
        """Removes the watches of this kind. Returns whether there was any (DataTree.removeWatch)."""
        match kind:
            case WatcherType.CHILDREN:
                return self.children.remove(path, watcher, WatchMode.ONCE)
            case WatcherType.DATA:
                return self.data.remove(path, watcher, WatchMode.ONCE)
            case WatcherType.PERSISTENT:
                both = self.children.remove(path, watcher, WatchMode.PERSISTENT)
                return self.data.remove(path, watcher, WatchMode.PERSISTENT) or both
            case WatcherType.PERSISTENT_RECURSIVE:
                return self.data.remove(path, watcher, WatchMode.RECURSIVE)
            case WatcherType.ANY:
                both = self.children.remove(path, watcher)
                return self.data.remove(path, watcher) or both

    def remove_watcher(self, watcher: WatcherT) -> None:
        self.data.remove_watcher(watcher)
        self.children.remove_watcher(watcher)

    def counts(self) -> tuple[int, int, int]:
        """Returns the numbers of connections, paths and watches of both tables together. As in
        DataTree.dumpWatchesSummary, a connection or path that is in both tables counts twice."""
        data, children = self.data.counts(), self.children.counts()
        return data[0] + children[0], data[1] + children[1], data[2] + children[2]


def _ancestors(path: bytes) -> Iterator[bytes]:
    """Yields the ancestors of a path, from its parent to "/"."""
    if path == b"/":
        return
    while (slash := path.rfind(b"/")) > 0:
        path = path[:slash]
        yield path
    yield b"/"
