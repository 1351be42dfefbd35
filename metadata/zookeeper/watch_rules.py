"""Which records are watched, what the server must be told of it, and what its events mean; without I/O.

On the server a watch is one of two persistent ones (ZooKeeper 3.6, addWatch): PERSISTENT tells all of one record,
PERSISTENT_RECURSIVE tells CREATED, CHANGED and DELETED of all below it, but not which lists of children changed: that
is added here, as a record that came or went changed its parent's list. Events that happened while no link was up are
not replayed by the server; they are worked out from what is found afterwards.
"""

from collections import Counter

from magnetar.metadata.record_watches import Watches
from magnetar.metadata.store import CancelWatch, EventType, RecordEvent, WatchCallback
from magnetar.metadata.tree_rules import parent_of
from magnetar.metadata.zookeeper.jute_codec import ZkStat


class ZkWatches:
    """Paths are the caller's, without chroot."""

    def __init__(self) -> None:
        self._exact = Watches()
        self._recursive = Watches()
        self._rearmed = Watches()
        """The recursive ones once more, each by its own path only."""
        self._exact_paths: Counter[str] = Counter()
        self._recursive_paths: Counter[str] = Counter()
        self._there: dict[str, bool] = {}
        """Exactly watched records that are known to exist, or not to."""

    @property
    def exact_paths(self) -> list[str]:
        return list(self._exact_paths)

    @property
    def recursive_paths(self) -> list[str]:
        return list(self._recursive_paths)

    def add(self, path: str, callback: WatchCallback, recursive: bool) -> CancelWatch:
        """The caller then tells the server `modes(path)`. The result takes the watch back; the caller then tells the
        server to forget the path if `modes` has become empty."""
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
        """What the server must watch, in this order (True: recursive): before 3.9 it keeps one mode for a path, the
        last one, and the recursive one covers both."""
        return [recursive for recursive in (False, True) if path in self._paths(recursive)]

    def happened(self, event: RecordEvent) -> None:
        """The server reports it."""
        if event.path in self._exact_paths:
            self._there[event.path] = event.type is not EventType.DELETED
        self._exact.fire((event,))
        if event.type is EventType.CHILDREN_CHANGED or not self._recursive_paths:
            return
        self._recursive.fire((event,))
        if event.type is not EventType.CHANGED and event.path != "/":
            self._recursive.fire((RecordEvent(EventType.CHILDREN_CHANGED, parent_of(event.path)),))

    def found(self, path: str, stat: ZkStat | None, bound: int) -> None:
        """After a new link: the exactly watched record's state. Reports what changed after zxid `bound`."""
        if path not in self._exact_paths:
            return
        was_there = self._there.get(path)
        self._exact.fire(RecordEvent(kind, path) for kind in _missed(was_there, stat, bound))
        if path in self._exact_paths:
            self._there[path] = stat is not None

    def overlooked(self, path: str) -> None:
        """After a new link: anything at or below the recursively watched record may have changed."""
        self._rearmed.fire((RecordEvent(EventType.CHANGED, path),))

    def _paths(self, recursive: bool) -> Counter[str]:
        return self._recursive_paths if recursive else self._exact_paths


def _missed(was_there: bool | None, stat: ZkStat | None, bound: int) -> list[EventType]:
    """What a watch that was always armed would have told, in its shortest form; `was_there` None: not known."""
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
