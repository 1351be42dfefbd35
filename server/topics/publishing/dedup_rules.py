"""Which messages were stored before: the highest sequence id of each producer name. Rules only.

A message is known by its producer's name and its sequence id, which grow. Two ids are kept for a name: what was handed
to the log (`pushed`), and what the log has confirmed (`persisted`). A message at or below the second is a duplicate.
One between them cannot be judged yet: the first copy may still fail, so its client must ask again.

All chunks of a message carry its one sequence id, so only the last of them counts.

Source: MessageDeduplication; facts 4.2.
"""

from collections.abc import Iterable
from enum import Enum


class DedupVerdict(Enum):
    NEW = "new"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    """The same message is on its way to the log; whether it arrives is not known yet."""


class DedupTable:
    """`producers_max` names are stored in a snapshot, those that were active last; what is beyond is forgotten with
    this process. Times are ms of any clock that does not go back."""

    __slots__ = ("_inactive_since", "_persisted", "_producers_max", "_pushed")

    def __init__(self, producers_max: int) -> None:
        self._producers_max = producers_max
        self._pushed: dict[str, int] = {}
        self._persisted: dict[str, int] = {}
        self._inactive_since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._persisted)

    def highest_pushed(self, name: str) -> int:
        """What a producer that comes (again) is told: -1 where nothing is known of the name."""
        return self._pushed.get(name, -1)

    def judge(self, name: str, sequence_id: int, highest: int) -> DedupVerdict:
        """A message, or a batch from `sequence_id` to `highest`. NEW: it counts as pushed now."""
        pushed = self._pushed.get(name)
        if pushed is not None and sequence_id <= pushed:
            return DedupVerdict.DUPLICATE if self.is_persisted(name, sequence_id) else DedupVerdict.UNKNOWN
        self._pushed[name] = highest
        return DedupVerdict.NEW

    def stored(self, name: str, highest: int) -> None:
        """The log confirmed messages of that name up to `highest`, in the order in which they were pushed."""
        # Taken out and put in at the end: the order of the dictionary is that of activity.
        self._persisted[name] = max(highest, self._persisted.pop(name, -1))

    def is_persisted(self, name: str, sequence_id: int) -> bool:
        persisted = self._persisted.get(name)
        return persisted is not None and sequence_id <= persisted

    def forget_unconfirmed(self) -> None:
        """An append failed and nothing is on its way any more: what was not confirmed comes again."""
        self._pushed = dict(self._persisted)

    # --- names that come and go --------------------------------------------------------------------------------------

    def came(self, name: str) -> None:
        """A producer of that name is connected."""
        self._inactive_since.pop(name, None)

    def left(self, name: str, now_s: float) -> None:
        """It is not any more. Of those that left, only as many are remembered as a snapshot holds."""
        if name in self._pushed:
            self._inactive_since.pop(name, None)
            self._inactive_since[name] = now_s
            if len(self._inactive_since) > self._producers_max:
                self._forget(next(iter(self._inactive_since)))

    def forget_inactive(self, before_s: float) -> int:
        """Forgets the names that are inactive since before that time. Returns how many there were."""
        gone = [name for name, since_s in self._inactive_since.items() if since_s < before_s]
        for name in gone:
            self._forget(name)
        return len(gone)

    def _forget(self, name: str) -> None:
        del self._inactive_since[name]
        self._pushed.pop(name, None)
        self._persisted.pop(name, None)

    # --- what is kept over restarts ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, int]:
        """What the cursor's properties say: name -> highest confirmed sequence id."""
        names = list(self._persisted)[-self._producers_max :] if self._producers_max else []
        return {name: self._persisted[name] for name in names}

    def replay(self, stored: Iterable[tuple[str, int]], now_s: float) -> None:
        """What the log holds behind the snapshot, as (name, highest sequence id), in its order."""
        for name, highest in stored:
            if highest > self._pushed.get(name, -1):
                self._pushed[name] = highest
            self.stored(name, highest)
            self.left(name, now_s)
