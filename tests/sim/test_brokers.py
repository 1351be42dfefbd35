"""Brokers keep their claims on random histories, a seed is one history, and the histories find planted bugs. `make sim`
tells many more histories, and `make sim-mutants` plants all bugs."""

import pytest

from tests.sim.broker_history import tell_of_brokers
from tests.sim.broker_mutations import first_broken
from tests.sim.histories import tell_each, traces_of

SEEDS = 10
SEEDS_OF_A_MUTATION = 20


@pytest.mark.slow
def test_no_history_of_brokers_breaks_a_claim() -> None:
    tell_each(tell_of_brokers, range(SEEDS), "--brokers")


@pytest.mark.slow
def test_a_seed_of_brokers_is_the_same_history_in_any_process() -> None:
    assert len(traces_of(1, "--brokers")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "a_bundle_is_given_away_before_its_topics_are_closed",
        "brokers_that_do_not_lead_place_bundles",
        "the_former_owner_is_not_fenced",
    ],
)
def test_a_bug_of_brokers_breaks_a_claim(name: str) -> None:
    assert first_broken(name, seeds=SEEDS_OF_A_MUTATION) is not None
