"""`python -m tests.damage [--rounds 20] [--seed N] [--only TEXT]` runs the matrix. It prints what was wrong and exits
with 1, or prints a table and exits with 0."""

import argparse
import asyncio
import logging
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.damage.cases import Case, Trial, Verdict, all_cases
from tests.damage.scenery import Scene, make_scenes

PROGRESS_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="cases of each cell of the matrix (default 20)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the places of an earlier run")
    parser.add_argument(
        "--only", default="", help="cases whose name (seed/round/scene/kind/harm) fits this regular expression"
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"damage matrix, {options.rounds} rounds, seed {seed}", flush=True)
    logging.getLogger().addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="damage-") as folder:
        scenes = make_scenes(Path(folder))
        cases = [case for case in all_cases(scenes, options.rounds, seed) if re.search(options.only, case.seed)]
        verdicts = []
        for number, case in enumerate(cases, 1):
            verdicts.append(run(case, scenes, Path(folder)))
            if number % PROGRESS_EVERY == 0:
                print(f"{number} of {len(cases)} cases", flush=True)
    return report(verdicts)


def run(case: Case, scenes: dict[str, Scene], folder: Path) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="case-", dir=folder) as own:
        verdict = asyncio.run(Trial(case, scenes, Path(own)).run())
    for complaint in verdict.complaints:
        print(f"{case.seed}\n  {verdict.harm}\n  {complaint}", flush=True)
    return verdict


def report(verdicts: list[Verdict]) -> int:
    outcomes = Counter((verdict.case.kind, verdict.outcome) for verdict in verdicts)
    for kind in sorted({kind for kind, _ in outcomes}):
        counts = ", ".join(f"{count} {outcome}" for (of, outcome), count in sorted(outcomes.items()) if of == kind)
        print(f"  {kind:30}  {counts}")
    bad = sum(bool(verdict.complaints) for verdict in verdicts)
    print(f"{len(verdicts)} cases, {bad} with complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
