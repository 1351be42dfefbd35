"""What has to hold of the histories of brokers, and of those of transactions."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check_no_claim_breaks(tell: Callable[[int], object], option: str, seeds: int) -> None:
    """Tells the histories of these seeds. `option` is the one with which `python -m tests.sim` tells such a history.
    Raises AssertionError with the command that tells the broken history again."""
    for seed in range(seeds):
        try:
            tell(seed)
        except Exception as error:
            again = f"python -m tests.sim {option} --seed {seed}"
            raise AssertionError(f"seed {seed}: {error!r}; again: {again}") from error


def check_same_in_any_process(option: str) -> None:
    """Tells one history in two processes whose sets and dictionaries have other orders. Raises AssertionError when it
    is not the same."""
    command = [sys.executable, "-m", "tests.sim", option, "--seed", "1"]
    traces = {
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
