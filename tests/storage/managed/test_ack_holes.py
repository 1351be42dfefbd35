"""The holes and the map of an acknowledgement state, checked against a look at every entry."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.storage.managed import ack_holes
from magnetar.storage.managed.ack_map import ack_map
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from pulsar_proto.ids import LATEST, Position
from tests.rounds import rounds

SIZES = {2: 5, 3: 1, 5: 7, 8: 4}
LEDGERS = LedgerList(LedgerInfo(ledger_id, entries, 1, 1) for ledger_id, entries in SIZES.items())
ALL = [(ledger_id, entry_id) for ledger_id, entries in SIZES.items() for entry_id in range(entries)]


@settings(deadline=None, max_examples=rounds(200))
@given(st.sets(st.sampled_from(ALL)), st.sampled_from([*ALL, (9, 0), tuple(LATEST)]))
def test_a_hole_is_what_is_not_acknowledged_before_something_that_is(
    acked: set[tuple[int, int]], before: tuple[int, int]
) -> None:
    acks = AckState(LEDGERS, Position(2, -1))
    acks.ack([(*each, None) for each in sorted(acked)])
    beyond = [each for each in acked if each > acks.mark_delete]
    expected = [each for each in ALL if each not in acked and each < before and any(each < other for other in beyond)]
    holes = list(ack_holes.holes(acks, LEDGERS, Position(*before)))
    assert [(ledger_id, entry_id) for ledger_id, entries in holes for entry_id in entries] == expected
    assert all(entries for _, entries in holes)
    ranges = [each for ledger_id, entries in holes for each in ack_holes.ranges_of(ledger_id, entries)]
    assert [(each.ledger_id, entry) for each in ranges for entry in range(each.first, each.last + 1)] == expected
    assert ack_holes.last_acked(acks) == (max(beyond) if beyond else None)
    for ledger_id, entries_count in SIZES.items():
        some = BitMap(range(0, entries_count, 2))
        left = sum(1 for entry_id in some if (ledger_id, entry_id) not in acked)
        assert acks.unacked_among(ledger_id, some) == left


@settings(deadline=None, max_examples=rounds(300))
@given(st.sets(st.sampled_from(ALL)), st.sampled_from([*ALL, (9, 0)]), st.integers(1, len(ALL) + 2))
def test_each_cell_counts_the_acknowledged_ones_of_its_entries(
    acked: set[tuple[int, int]], before: tuple[int, int], cells_max: int
) -> None:
    acks = AckState(LEDGERS, Position(2, -1))
    acks.ack([(*each, None) for each in sorted(acked)])
    behind = [each for each in ALL if each > acks.mark_delete]
    last = max((each for each in behind if each in acked), default=(0, 0))
    shown = [each for each in behind if each < before or each <= last]
    found = ack_map(acks, LEDGERS, Position(*before), cells_max)
    cells = [shown[at : at + found.entries_per_cell] for at in range(0, len(shown), found.entries_per_cell)]
    assert len(cells) <= cells_max
    assert found.acked == [sum(each in acked for each in cell) for cell in cells]
    assert (found.entries, found.to_last_acked) == (len(shown), sum(each <= last for each in behind))
