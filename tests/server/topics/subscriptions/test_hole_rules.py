"""How long something has been in a hole, compared with a twin that notes when it first saw each entry there."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.server.topics.subscriptions.hole_rules import HoleWatch
from tests.rounds import rounds

INTERVAL = 8.0
HOLES = st.dictionaries(st.integers(1, 2), st.sets(st.integers(0, 9), min_size=1), max_size=2)


@settings(deadline=None, max_examples=rounds(300))
@given(st.lists(st.tuples(HOLES, st.integers(1, 12)), max_size=14))
def test_what_is_found_has_been_there_for_the_interval(looks: list[tuple[dict[int, set[int]], int]]) -> None:
    """The twin relies on this: an entry that is acknowledged never gets back into a hole."""
    watch, now = HoleWatch(), 0.0
    since: dict[tuple[int, int], float] = {}
    acked: set[tuple[int, int]] = set()
    for holes, seconds in looks:
        now += seconds
        here = {(ledger_id, entry_id) for ledger_id in holes for entry_id in holes[ledger_id]} - acked
        acked |= since.keys() - here
        since = {each: since.get(each, now) for each in here}
        bitmaps: dict[int, BitMap] = {}
        for ledger_id, entry_id in here:
            bitmaps.setdefault(ledger_id, BitMap()).add(entry_id)
        found = watch.look(now, bitmaps, INTERVAL)
        got = {(ledger_id, entry_id) for ledger_id in found for entry_id in found[ledger_id]}
        assert got == {each for each, time in since.items() if time <= now - INTERVAL}
        for each in got:
            del since[each]


def test_what_was_filled_is_filled_again_only_after_another_interval() -> None:
    watch = HoleWatch()
    hole = {1: BitMap([4])}
    found = [sum(map(len, watch.look(float(now), hole, 4.0).values())) for now in range(14)]
    assert [now for now, count in enumerate(found) if count] == [4, 9]
