"""Questions about what a cursor has acknowledged, for dispatchers, stats and upkeep."""

from collections.abc import Iterator, Sequence
from itertools import islice

from pyroaring import BitMap

from magnetar.storage.managed import ack_holes
from magnetar.storage.managed.ack_map import AckMap, ack_map
from magnetar.storage.managed.ack_state import AckRange, AckState
from magnetar.storage.managed.ledger_list import LedgerList
from pulsar_proto.ids import LATEST, Position


class CursorView:
    """The methods of a `Cursor` that ask for its state. None of them changes the cursor."""

    __slots__ = ("_acks", "_ledgers", "is_active")

    def __init__(self, ledgers: LedgerList, acks: AckState) -> None:
        self._ledgers = ledgers
        self._acks = acks
        self.is_active = False
        """Whether a consumer reads at the tail with this cursor (`ManagedLedger.activate`)."""

    @property
    def mark_delete(self) -> Position:
        return self._acks.mark_delete

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged, counted from positions and ledger lengths."""
        return self._ledgers.entries_between(self._acks.mark_delete, LATEST) - self._acks.acked_beyond

    def unacked_from(self, position: Position) -> int:
        """Returns how many entries at or after `position` are not acknowledged."""
        ledger_id, entry_id = max(position, self._acks.first_beyond)
        before = Position(ledger_id, entry_id - 1)
        return self._ledgers.entries_between(before, LATEST) - self._acks.acked_from(ledger_id, entry_id)

    @property
    def backlog_size(self) -> int:
        """Estimated payload bytes after the mark-delete."""
        return self._ledgers.size_after(self._acks.mark_delete)

    @property
    def number_of_holes(self) -> int:
        """How many acknowledged ranges there are beyond the mark-delete."""
        return self._acks.number_of_ranges

    def holes(self, at_most: int) -> list[AckRange]:
        """Returns the first acknowledged ranges beyond the mark-delete, for stats."""
        return list(islice(self._acks.ranges(), at_most))

    def unacked_ranges(self, at_most: int) -> list[AckRange]:
        """Returns the first ranges that are not acknowledged although later entries are, for stats."""
        return ack_holes.first_ranges(self._acks, self._ledgers, at_most)

    def holes_before(self, position: Position) -> Iterator[tuple[int, BitMap]]:
        """Yields (ledger, its entries in holes), in order. A hole holds unacknowledged entries that are followed by
        acknowledged ones; entries at or after `position` are left out."""
        return ack_holes.holes(self._acks, self._ledgers, position)

    def ack_map(self, before: Position, cells_max: int) -> AckMap:
        """Returns a map of the entries behind the mark-delete up to `before`, or up to the last acknowledged one."""
        return ack_map(self._acks, self._ledgers, before, cells_max)

    @property
    def entries_in_holes(self) -> int:
        """Returns how many entries are in holes: unacknowledged, although later entries are acknowledged."""
        last = ack_holes.last_acked(self._acks)
        if last is None:
            return 0
        return self._ledgers.entries_between(self._acks.mark_delete, last) - self._acks.acked_beyond

    @property
    def changes(self) -> int:
        """Returns how often the cursor's state was changed since it was opened, by acknowledgements and moves."""
        return self._acks.revision

    @property
    def resets(self) -> int:
        """Returns how often the cursor was moved, back or forth."""
        return self._acks.resets

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        return self._acks.is_acked(ledger_id, entry_id)

    def next_unacked(self, position: Position) -> Position:
        """Returns the first entry at or after `position` that is not acknowledged. The returned position may be beyond
        the last entry."""
        return self._acks.next_unacked(position)

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]:
        """Returns the parts of these entries that are not acknowledged, as (first entry id, count)."""
        return self._acks.unacked_runs(ledger_id, first, count)

    def unacked_among(self, ledger_id: int, entries: BitMap) -> int:
        """Returns how many of `entries` are not acknowledged."""
        return self._acks.unacked_among(ledger_id, entries)

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None:
        """Returns the words for MESSAGE.ack_set, or None when no index of the entry is acknowledged."""
        return self._acks.ack_set_of(ledger_id, entry_id)
