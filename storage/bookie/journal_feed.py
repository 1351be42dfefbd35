"""Gives a journal the adds of one turn of the event loop together.

A thousand topics that get a message each make a thousand adds in one turn. If each of them went to the journal's thread
by itself, both threads would spend more time on handing them over than on writing them.
"""

import asyncio
from collections.abc import Callable, Sequence

from magnetar.storage.bookie.journal import Journal
from magnetar.storage.bookie.ledger_state import BookieLedgerState

AddDone = Callable[[Sequence[int], int], None]
"""The callback of a group of adds. The bookie calls it once, with the group's entry ids and the group's result code."""

AwaitedAdd = tuple[Sequence[int], AddDone, BookieLedgerState | None]
"""An add that the journal has: (entry ids, callback, the state of the ledger if the journal did not have the ledger's
key before). A journal's group carries the list of its adds."""


class JournalFeed:
    """Collects adds for one journal. Used on the event loop's thread only."""

    __slots__ = ("_adds", "_bytes_max", "_controls", "_entries", "_journal", "_lengths", "_loop", "_size")

    def __init__(self, journal: Journal, bytes_max: int) -> None:
        """The journal gets the adds early when they have `bytes_max` bytes together."""
        self._loop = asyncio.get_running_loop()
        self._journal = journal
        self._bytes_max = bytes_max
        self._begin()

    def _begin(self) -> None:
        self._entries: list[bytes] = []
        self._lengths: list[int] = []
        self._size = 0
        self._controls: list[bytes] = []
        self._adds: list[AwaitedAdd] = []

    def add(
        self, entries: list[bytes], lengths: list[int], size: int, controls: Sequence[bytes], add: AwaitedAdd
    ) -> None:
        """Takes entries, whose lengths have the sum `size`, and control records. The journal gets them at the end of
        this turn of the event loop."""
        if not self._adds:
            self._loop.call_soon(self.submit)
        self._entries += entries
        self._lengths += lengths
        self._size += size
        self._controls += controls
        self._adds.append(add)
        if self._size >= self._bytes_max:
            self.submit()

    def submit(self) -> None:
        """Gives the journal what was collected."""
        if self._adds:
            self._journal.submit((self._entries, self._lengths, self._size, self._controls, self._adds))
            self._begin()
