"""A registry of the callbacks that watch records, without I/O: a store tells the registry of changes, and the registry
calls the callbacks."""

import logging
from collections.abc import Iterable

from magnetar.metadata.store import CancelWatch, RecordEvent, WatchCallback

log = logging.getLogger(__name__)


class Watches:
    """Holds callbacks by the path that they watch.

    An event costs one look-up for its path and, if there are recursive watches, one for each of its ancestors, however
    many watches there are.
    """

    __slots__ = ("_exact", "_recursive")

    def __init__(self) -> None:
        self._exact: dict[str, dict[object, WatchCallback]] = {}
        self._recursive: dict[str, dict[object, WatchCallback]] = {}

    def add(self, path: str, callback: WatchCallback, recursive: bool) -> CancelWatch:
        """Adds a callback; returns the function that removes it.

        The returned function may be called at any time, also twice, and also from within a callback.
        """
        registry = self._recursive if recursive else self._exact
        key = object()
        registry.setdefault(path, {})[key] = callback

        def cancel() -> None:
            callbacks = registry.get(path)
            if callbacks is not None and callbacks.pop(key, None) is not None and not callbacks:
                registry.pop(path, None)

        return cancel

    def fire(self, events: Iterable[RecordEvent]) -> None:
        """Calls the callbacks that watch the records of these events. An exception of a callback is logged."""
        for event in events:
            self._call(self._exact, event.path, event)
            if self._recursive:
                path = event.path
                while path:
                    self._call(self._recursive, path, event)
                    path = path[: path.rindex("/")]
                if event.path != "/":
                    self._call(self._recursive, "/", event)

    @staticmethod
    def _call(registry: dict[str, dict[object, WatchCallback]], path: str, event: RecordEvent) -> None:
        callbacks = registry.get(path)
        if callbacks is None:
            return
        for key, callback in list(callbacks.items()):
            if key not in callbacks:
                continue  # an earlier callback cancelled this watch
            try:
                callback(event)
            except Exception:
                log.exception("a watch of %s failed on %s", path, event)
