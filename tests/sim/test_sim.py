"""A bounded number of histories keeps every claim; `make sim SEEDS=10000` runs many more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.sim_history import tell

ROOT = Path(__file__).resolve().parents[2]
SEEDS_A_TEST = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, SEEDS_A_TEST))
def test_no_history_breaks_a_claim(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        try:
            tell(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}; again: python -m tests.sim --seed {seed}") from error


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_is_the_same_history_in_any_process(seed: int) -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }
    assert len(traces) == 1
