"""Transactions keep their claims on random histories, a seed is one history, and the histories find planted bugs.
`python -m tests.sim --transactions` tells many more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.transaction_history import tell_of_transactions
from tests.sim.transaction_mutations import MUTATIONS, first_broken

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 5
SEEDS_OF_A_MUTATION = 20


@pytest.mark.slow
def test_no_history_of_transactions_breaks_a_claim() -> None:
    for seed in range(SEEDS):
        try:
            tell_of_transactions(seed)
        except Exception as error:
            again = f"python -m tests.sim --transactions --seed {seed}"
            raise AssertionError(f"seed {seed}: {error!r}; again: {again}") from error


@pytest.mark.slow
def test_a_seed_of_transactions_is_the_same_history_in_any_process() -> None:
    command = [sys.executable, "-m", "tests.sim", "--transactions", "--seed", "1"]
    traces = {
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_bug_of_transactions_breaks_a_claim(name: str) -> None:
    assert first_broken(name, seeds=SEEDS_OF_A_MUTATION) is not None
