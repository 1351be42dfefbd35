"""The choice of bookies: different and writable ones, and those that failed last."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.ledger_errors import NotEnoughBookies
from magnetar.storage.ledger.placement_rules import AnyBookies, SpareBookies, choose_ensemble, replace_failed

names = st.lists(st.sampled_from([f"b{i}" for i in range(8)]), unique=True)


@given(names, st.integers(1, 8), st.integers())
def test_an_ensemble_has_different_writable_bookies(writable: list[str], size: int, seed: int) -> None:
    if size > len(writable):
        with pytest.raises(NotEnoughBookies):
            choose_ensemble(writable, size, Random(seed))
        return
    chosen = choose_ensemble(writable, size, Random(seed))
    assert len(chosen) == len(set(chosen)) == size
    assert set(chosen) <= set(writable)


@given(names, st.integers(1, 8), st.integers(), names)
def test_bookies_to_avoid_are_chosen_only_for_want_of_others(
    writable: list[str], size: int, seed: int, avoid: list[str]
) -> None:
    if size > len(writable):
        return
    chosen = set(choose_ensemble(writable, size, Random(seed), avoid=avoid))
    good = set(writable) - set(avoid)
    assert len(chosen & good) == min(size, len(good))


@given(st.permutations([f"b{i}" for i in range(4)]), st.sets(st.integers(0, 3)), names, st.integers())
def test_failed_members_give_way_to_spare_bookies_and_the_others_stay(
    ensemble: list[str], failed: set[int], writable: list[str], seed: int
) -> None:
    spare = set(writable) - set(ensemble)
    wanted = {index: ensemble[index] for index in failed}
    if failed and not spare:
        with pytest.raises(NotEnoughBookies):
            replace_failed(ensemble, wanted, writable, Random(seed))
        return
    changed = replace_failed(ensemble, wanted, writable, Random(seed))
    replaced = {index for index in range(4) if changed[index] != ensemble[index]}
    assert replaced <= failed
    assert len(replaced) == min(len(failed), len(spare))
    assert len(set(changed)) == 4
    assert {changed[index] for index in replaced} <= spare


def test_a_member_that_somebody_else_replaced_needs_no_replacement() -> None:
    assert replace_failed(["b1", "b5"], {0: "b0"}, ["b0", "b1", "b5"], Random(1)) == ("b1", "b5")


def test_every_spare_bookie_gets_its_turn() -> None:
    rng = Random(7)
    chosen = {choose_ensemble(["a", "b", "c"], 1, rng) for _ in range(50)}
    assert chosen == {("a",), ("b",), ("c",)}


def test_a_bookie_that_failed_this_handle_comes_back_last() -> None:
    spare = SpareBookies(AnyBookies(lambda: ["a", "b", "c"], Random(3)), 1)
    members = spare(("a",), {0: "a"})
    assert members in {("b",), ("c",)}
    again = spare(members, {0: members[0]})
    assert {members, again} == {("b",), ("c",)}
    assert spare(again, {0: again[0]}) in {("a",), members}
