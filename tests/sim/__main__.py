"""`python -m tests.sim --seeds 10000 [--first N]` runs that many histories, `--seed N` runs one; prints each seed whose
history breaks a claim."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.sim.sim_history import tell

PROGRESS_SECONDS = 10.0
CHUNK = 20


def told(seeds: range) -> list[tuple[int, str]]:
    """Runs the histories and returns (seed, complaint) for each one that broke a claim."""
    broken = []
    for seed in seeds:
        try:
            tell(seed)
        except Exception as error:
            broken.append((seed, f"{type(error).__name__}: {error}"))
    return broken


def tell_all(first: int, count: int, processes: int) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    chunks = [range(start, min(start + CHUNK, first + count)) for start in range(first, first + count, CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        for chunk, broken in zip(chunks, pool.map(told, chunks), strict=True):
            yield len(chunk), broken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one history, with its traceback")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    at = parser.parse_args()
    if at.seed is not None:
        try:
            print(f"seed {at.seed}: trace {tell(at.seed)}")
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    began = said = time.monotonic()
    done, failures = 0, 0
    for count, broken in tell_all(at.first, at.seeds, at.processes):
        done, failures = done + count, failures + len(broken)
        for seed, what in broken:
            print(f"seed {seed}: {what}\n  again: python -m tests.sim --seed {seed}", flush=True)
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            print(f"{done} of {at.seeds} histories, {failures} broken", file=sys.stderr, flush=True)
    print(f"{done} histories in {time.monotonic() - began:.0f} s, {failures} broken")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
