"""Counts the groups of entries that this process has sent to bookies and that are not confirmed yet.

Work that can wait asks this count before it takes the event loop. While a group is under way the journal's thread needs
the interpreter and the receipts need the loop, so every millisecond of other work delays a client's message."""

from collections.abc import Callable


class AppendsUnderWay:
    """The count of one ledger client. The writers of its ledgers change it; all calls are on the loop's thread."""

    __slots__ = ("_listeners", "count")

    def __init__(self) -> None:
        self.count = 0
        self._listeners: tuple[Callable[[], None], ...] = ()

    def when_none(self, listener: Callable[[], None]) -> None:
        """Calls `listener` from now on whenever the last group is confirmed or has failed. The listener runs between
        two receipts, so it must be short and must not raise."""
        self._listeners += (listener,)

    def begins(self) -> None:
        """Called when a group is sent."""
        self.count += 1

    def ends(self) -> None:
        """Called when a group is confirmed or has failed, after its writer was told."""
        self.count -= 1
        if not self.count:
            for listener in self._listeners:
                listener()
