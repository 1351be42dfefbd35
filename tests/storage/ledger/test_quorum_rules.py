"""Quorum arithmetic, checked against twins that enumerate every case."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.quorum_rules import Coverage, check_sizes, held_ids, holds, missing_proves_end, write_set

Sizes = tuple[int, int, int]


@st.composite
def sizes(draw: st.DrawFn) -> Sizes:
    ensemble_size = draw(st.integers(1, 6))
    write_quorum = draw(st.integers(1, ensemble_size))
    return ensemble_size, write_quorum, draw(st.integers(1, write_quorum))


def ack_quorums(entry_id: int, size: Sizes) -> list[set[int]]:
    """Returns every set of bookies whose answers acknowledge the entry."""
    ensemble_size, write_quorum, ack_quorum = size
    members = [(entry_id + i) % ensemble_size for i in range(write_quorum)]
    return [set(some) for some in combinations(members, ack_quorum)]


@given(sizes(), st.integers(0, 10**12))
def test_an_entry_goes_to_as_many_neighbouring_bookies_as_the_write_quorum(size: Sizes, entry_id: int) -> None:
    ensemble_size, write_quorum, _ = size
    members = write_set(entry_id, ensemble_size, write_quorum)
    assert len(set(members)) == write_quorum
    assert members[0] == entry_id % ensemble_size
    assert [index for index in range(ensemble_size) if holds(index, entry_id, ensemble_size, write_quorum)] == sorted(
        members
    )


@given(sizes(), st.integers(0, 1000), st.integers(0, 30))
def test_the_entries_a_bookie_holds_are_those_whose_write_set_names_it(size: Sizes, first: int, count: int) -> None:
    ensemble_size, write_quorum, _ = size
    for index in range(ensemble_size):
        expected = [e for e in range(first, first + count) if index in write_set(e, ensemble_size, write_quorum)]
        assert list(held_ids(index, first, count, ensemble_size, write_quorum)) == expected


@given(sizes(), st.data())
def test_answers_cover_the_ensemble_when_every_ack_quorum_met_one_of_them(size: Sizes, data: st.DataObject) -> None:
    coverage = Coverage(*size)
    known: set[int] = set()
    left = set(range(size[0]))
    for index in data.draw(st.permutations(range(size[0]))):
        told = data.draw(st.booleans())
        coverage.answer(index, known=told)
        left.remove(index)
        if told:
            known.add(index)
        quorums = [quorum for entry_id in range(size[0]) for quorum in ack_quorums(entry_id, size)]
        assert coverage.covered == all(quorum & known for quorum in quorums)
        assert coverage.hopeless == any(not quorum & (known | left) for quorum in quorums)


@given(sizes(), st.integers(0, 20))
def test_enough_replicas_without_an_entry_prove_that_nobody_acknowledged_it(size: Sizes, entry_id: int) -> None:
    ensemble_size, write_quorum, ack_quorum = size
    members = write_set(entry_id, ensemble_size, write_quorum)
    for missing in range(write_quorum + 1):
        proved = all(
            quorum & set(without)
            for without in combinations(members, missing)
            for quorum in ack_quorums(entry_id, size)
        )
        assert missing_proves_end(missing, write_quorum, ack_quorum) == proved


def test_a_bookie_answers_a_round_once() -> None:
    coverage = Coverage(3, 3, 2)
    coverage.answer(1, known=True)
    with pytest.raises(KeyError):
        coverage.answer(1, known=False)


@pytest.mark.parametrize("size", [(2, 3, 1), (3, 2, 3), (1, 1, 0), (0, 0, 0)])
def test_sizes_that_cannot_be_are_refused(size: Sizes) -> None:
    with pytest.raises(ValueError):
        check_sizes(*size)
