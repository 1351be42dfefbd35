"""The entries of a managed ledger that are known to be lost: every replica was asked, and none has them.

Pure: no I/O, no clock. A gap becomes known when a read of its entries fails, and is forgotten when the process ends.
"""

from bisect import bisect_right
from dataclasses import dataclass

from pulsar_proto.ids import Position

GAPS_MAX = 1_000
"""How many gaps of a managed ledger are remembered. Beyond that the first gap is forgotten; a later read finds it
again."""


@dataclass(slots=True)
class Gap:
    """The entries `first` to `last` of one ledger cannot be read, while the entries around them can."""

    ledger_id: int
    first: int
    last: int
    reason: str
    """The error message of the ledger client for one of the entries."""
    skipped: bool = False
    """Whether reading went on after the gap and the cursors have acknowledged its entries."""

    def __str__(self) -> str:
        return f"entries {self.ledger_id}:{self.first} to {self.ledger_id}:{self.last} ({self.entries})"

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    @property
    def end(self) -> Position:
        """Returns the position after the last entry of the gap."""
        return Position(self.ledger_id, self.last + 1)


class Gaps:
    """The known gaps in the order of their positions. Gaps neither overlap nor touch each other."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[Gap, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._known)

    @property
    def known(self) -> tuple[Gap, ...]:
        return self._known

    @property
    def entries(self) -> int:
        """How many entries are known to be lost."""
        return sum(gap.entries for gap in self._known)

    @property
    def entries_skipped(self) -> int:
        """How many lost entries were skipped."""
        return sum(gap.entries for gap in self._known if gap.skipped)

    def at(self, position: Position) -> Gap | None:
        """Returns the gap that the entry is in, or None."""
        index = bisect_right(self._known, position, key=lambda gap: Position(gap.ledger_id, gap.first)) - 1
        if index < 0:
            return None
        gap = self._known[index]
        return gap if gap.ledger_id == position.ledger_id and position.entry_id <= gap.last else None

    def add(self, gap: Gap) -> None:
        """Adds a gap that was just found. The new gap replaces all known gaps that overlap with it."""
        known = [
            known
            for known in self._known
            if known.ledger_id != gap.ledger_id or known.last < gap.first or known.first > gap.last
        ]
        if len(known) >= GAPS_MAX:
            del known[0]
        self._known = tuple(sorted((*known, gap), key=lambda known: (known.ledger_id, known.first)))

    def remove(self, gap: Gap) -> None:
        """Forgets a gap whose entries can be read again."""
        self._known = tuple(known for known in self._known if known is not gap)

    def forget_before(self, ledger_id: int) -> None:
        """Forgets the gaps in ledgers before `ledger_id`, which were deleted."""
        self._known = tuple(gap for gap in self._known if gap.ledger_id >= ledger_id)
