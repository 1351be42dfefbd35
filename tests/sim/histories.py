"""What the tests of all kinds of histories share: they tell some, and compare the traces of one seed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tell_each(tell: Callable[[int], object], seeds: Iterable[int], *options: str) -> None:
    """Tells the history of each seed. Raises AssertionError with the command that tells the broken one again; `options`
    are those of `python -m tests.sim` for this kind of history."""
    for seed in seeds:
        try:
            tell(seed)
        except Exception as error:
            again = " ".join(["python -m tests.sim", *options, "--seed", str(seed)])
            raise AssertionError(f"seed {seed}: {error!r}; again: {again}") from error


def traces_of(seed: int, *options: str) -> set[str]:
    """Returns what processes with different seeds of Python's own hashes print about one history."""
    return {
        subprocess.run(
            [sys.executable, "-m", "tests.sim", *options, "--seed", str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }
