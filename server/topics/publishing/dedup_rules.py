"""Decides which messages were stored before, by the highest sequence id of each producer name.

A message is identified by its producer's name and its sequence id; a producer's sequence ids grow. Two ids are kept for
each name: the highest id that was handed to the log (`pushed`), and the highest id that the log has confirmed
(`persisted`).

    sequence id:  ───── persisted ───────────── pushed ─────▶
                  duplicate  │     unknown        │   new

A message between these two ids cannot be judged yet. The first copy of the message may still fail, so the client has to
send the message again later.

All chunks of a message carry the sequence id of the message, so deduplication counts only the last chunk.

Source: MessageDeduplication.
"""

from collections.abc import Iterable
from enum import Enum


class DedupVerdict(Enum):
    NEW = "new"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    """Another copy of the message is on its way to the log, and the broker does not know yet whether that copy will be
    stored."""


class DedupTable:
    """The table of one topic's producer names and sequence ids. A snapshot of the table holds the `producers_max` most
    recently active names; all other names are lost when this process ends. Times are seconds of a clock that does not
    go back."""

    __slots__ = ("_inactive_since", "_persisted", "_producers_max", "_pushed")

    def __init__(self, producers_max: int) -> None:
        self._producers_max = producers_max
        self._pushed: dict[str, int] = {}
        self._persisted: dict[str, int] = {}
        self._inactive_since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._persisted)

    def highest_pushed(self, name: str) -> int:
        """Returns the highest pushed sequence id of a name, or -1 for an unknown name. The broker tells this id to a
        producer that connects."""
        return self._pushed.get(name, -1)

    def judge(self, name: str, sequence_id: int, highest: int) -> DedupVerdict:
        """Returns whether a message is new, a duplicate or not yet known; a batch reaches from `sequence_id` to
        `highest`. A message that is NEW counts as pushed from now on."""
        pushed = self._pushed.get(name)
        if pushed is not None and sequence_id <= pushed:
            return DedupVerdict.DUPLICATE if self.is_persisted(name, sequence_id) else DedupVerdict.UNKNOWN
        self._pushed[name] = highest
        return DedupVerdict.NEW

    def stored(self, name: str, highest: int) -> None:
        """Called when the log has confirmed the messages of a name up to `highest`, which count as persisted from now
        on. The log confirms messages in the order in which they were pushed."""
        # The name is removed and added again at the end, so that the dictionary's order is the order of last activity.
        self._persisted[name] = max(highest, self._persisted.pop(name, -1))

    def is_persisted(self, name: str, sequence_id: int) -> bool:
        persisted = self._persisted.get(name)
        return persisted is not None and sequence_id <= persisted

    def forget_unconfirmed(self) -> None:
        """Called after an append failed, once all appends have been answered. Clients will send unconfirmed messages
        again, so unconfirmed messages no longer count as pushed."""
        self._pushed = dict(self._persisted)

    # --- producers that connect and leave ----------------------------------------------------------------------------

    def came(self, name: str) -> None:
        """Notes that a producer of that name is connected."""
        self._inactive_since.pop(name, None)

    def left(self, name: str, now_s: float) -> None:
        """Notes that the producer of a name has left. When more producers have left than a snapshot holds, the name
        that left first is forgotten."""
        if name in self._pushed:
            self._inactive_since.pop(name, None)
            self._inactive_since[name] = now_s
            if len(self._inactive_since) > self._producers_max:
                self._forget(next(iter(self._inactive_since)))

    def forget_inactive(self, before_s: float) -> int:
        """Forgets the names whose producers left before `before_s`. Returns how many names were forgotten."""
        gone = [name for name, since_s in self._inactive_since.items() if since_s < before_s]
        for name in gone:
            self._forget(name)
        return len(gone)

    def _forget(self, name: str) -> None:
        del self._inactive_since[name]
        self._pushed.pop(name, None)
        self._persisted.pop(name, None)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, int]:
        """Returns the snapshot, which the caller stores as the cursor's properties: name -> highest confirmed sequence
        id."""
        names = list(self._persisted)[-self._producers_max :] if self._producers_max else []
        return {name: self._persisted[name] for name in names}

    def replay(self, stored: Iterable[tuple[str, int]], now_s: float) -> None:
        """Adds the content of a snapshot, or of the log after the snapshot, to the table. `stored` holds pairs of
        (producer name, highest sequence id), oldest first. All producers in `stored` count as having left at
        `now_s`."""
        for name, highest in stored:
            if highest > self._pushed.get(name, -1):
                self._pushed[name] = highest
            self.stored(name, highest)
            self.left(name, now_s)
