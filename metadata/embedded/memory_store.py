"""Keeps the records in memory, for tests and simulation. Nothing survives the process."""

from collections.abc import Callable
from itertools import count

from magnetar.metadata.embedded.tree_store import Done, TreeStore, wall_clock_ms
from magnetar.metadata.record_watches import Watches
from magnetar.metadata.tree_rules import Batch, Tree


class MemoryStore(TreeStore):
    """The first session on a new tree. `session()` opens further sessions, which stand for other servers.

    A write takes one turn of the loop, so that no caller relies on writes that are faster than those of other stores.
    """

    def __init__(self, *, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        """`clock_ms` dates the records (milliseconds since the epoch)."""
        self._session_ids = count(1)
        super().__init__("(memory)", Tree(clock_ms()), Watches(), next(self._session_ids), clock_ms)

    def session(self) -> "MemoryStore":
        """Opens another session on the same records, with ephemeral records and watches of its own."""
        other = MemoryStore.__new__(MemoryStore)
        other._session_ids = self._session_ids
        TreeStore.__init__(other, self._name, self._tree, self._watches, next(self._session_ids), self._clock_ms)
        return other

    def _persist(self, batch: Batch, done: Done) -> None:
        done(None)

    async def _release(self) -> None:
        """Does nothing, because this store has neither a file nor a thread."""
