"""`python -m tests.sim --seeds 10000 [--first N]` runs that many histories, `--seed N` runs one; prints each seed whose
history breaks a claim. With `--brokers` the histories are those of brokers, with `--transactions` those of
transactions, otherwise those of ledgers. With `--mutations` bugs of brokers are planted, and each must break a claim of
some history.
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.sim.broker_history import tell_of_brokers
from tests.sim.broker_mutations import MUTATIONS, first_broken
from tests.sim.sim_history import tell
from tests.sim.transaction_history import tell_of_transactions

TELL = {"ledgers": tell, "brokers": tell_of_brokers, "transactions": tell_of_transactions}
"""The kinds of histories."""
PROGRESS_SECONDS = 10.0
CHUNK = 20


def told(seeds: range, *, kind: str) -> list[tuple[int, str]]:
    """Runs the histories and returns (seed, complaint) for each one that broke a claim."""
    broken = []
    for seed in seeds:
        try:
            TELL[kind](seed)
        except Exception as error:
            broken.append((seed, f"{type(error).__name__}: {error}"))
    return broken


def tell_all(first: int, count: int, processes: int, *, kind: str) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    chunks = [range(start, min(start + CHUNK, first + count)) for start in range(first, first + count, CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        for chunk, broken in zip(chunks, pool.map(partial(told, kind=kind), chunks), strict=True):
            yield len(chunk), broken


def plant_all(seeds: int, processes: int) -> int:
    """Plants the bugs of brokers one after the other. Returns how many of them no history noticed."""
    missed = 0
    with ProcessPoolExecutor(processes) as pool:
        for name, found in zip(MUTATIONS, pool.map(partial(first_broken, seeds=seeds), MUTATIONS), strict=True):
            missed += found is None
            print(f"{name}: {'NOT FOUND' if found is None else f'seed {found[0]}: {found[1]}'}", flush=True)
    print(f"{len(MUTATIONS) - missed} of {len(MUTATIONS)} bugs found")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one history, with its traceback")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--brokers", action="store_true", help="histories of brokers instead of ledgers")
    parser.add_argument("--transactions", action="store_true", help="histories of transactions instead of ledgers")
    parser.add_argument(
        "--mutations", action="store_true", help="plant bugs of brokers, each in up to --seeds histories"
    )
    at = parser.parse_args()
    kind = "transactions" if at.transactions else "brokers" if at.brokers else "ledgers"
    option = "" if kind == "ledgers" else f" --{kind}"
    if at.mutations:
        return 1 if plant_all(at.seeds, at.processes) else 0
    if at.seed is not None:
        try:
            print(f"seed {at.seed}: trace {TELL[kind](at.seed)}")
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    began = said = time.monotonic()
    done, failures = 0, 0
    for count, broken in tell_all(at.first, at.seeds, at.processes, kind=kind):
        done, failures = done + count, failures + len(broken)
        for seed, what in broken:
            print(
                f"seed {seed}: {what}\n  again: python -m tests.sim{option} --seed {seed}",
                flush=True,
            )
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            print(f"{done} of {at.seeds} histories, {failures} broken", file=sys.stderr, flush=True)
    print(f"{done} histories in {time.monotonic() - began:.0f} s, {failures} broken")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
