"""Transactions keep their claims on random histories, a seed is one history, and the histories find planted bugs.
`python -m tests.sim --transactions` tells many more."""

import pytest

from tests.sim.histories import tell_each, traces_of
from tests.sim.transaction_history import tell_of_transactions
from tests.sim.transaction_mutations import MUTATIONS, first_broken

SEEDS = 5
SEEDS_OF_A_MUTATION = 20


@pytest.mark.slow
def test_no_history_of_transactions_breaks_a_claim() -> None:
    tell_each(tell_of_transactions, range(SEEDS), "--transactions")


@pytest.mark.slow
def test_a_seed_of_transactions_is_the_same_history_in_any_process() -> None:
    assert len(traces_of(1, "--transactions")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_bug_of_transactions_breaks_a_claim(name: str) -> None:
    assert first_broken(name, seeds=SEEDS_OF_A_MUTATION) is not None
