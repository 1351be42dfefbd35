"""A bounded number of histories keeps every claim; `make sim SEEDS=10000` runs many more."""

import pytest

from tests.sim.histories import tell_each, traces_of
from tests.sim.sim_history import tell

SEEDS_A_TEST = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, SEEDS_A_TEST))
def test_no_history_breaks_a_claim(first: int) -> None:
    tell_each(tell, range(first, first + SEEDS_A_TEST))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_is_the_same_history_in_any_process(seed: int) -> None:
    assert len(traces_of(seed)) == 1
