"""`python -m compat_tests.chaos [--rounds 20] [--seed N] [--first 1]` tells each round's plan and what broke; it exits
with 1 when something did. The folder of a cluster on which something broke is kept."""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compat_tests import redirects
from compat_tests.chaos import isolation
from compat_tests.chaos.chaos_round import ChaosRound, Result
from compat_tests.chaos.cluster import ChaosCluster
from compat_tests.chaos.plan import Kind

ROUNDS_OF_A_CLUSTER = 10
FAULT_SECONDS = 9.0
QUORUMS = ((3, 3, 2), (3, 2, 2), (2, 2, 2))
"""Ensemble, write and ack quorum; each cluster takes the next."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many rounds (default 20)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the plans of an earlier run")
    parser.add_argument("--first", type=int, default=1, help="the number of the first round (default 1)")
    parser.add_argument("--seconds", type=float, default=FAULT_SECONDS, help="how long faults last at most")
    parser.add_argument("--folder", type=Path, default=None, help="where clusters have their data and logs")
    parser.add_argument("--only", default="", help="only kinds of faults that match this regular expression")
    options = parser.parse_args()
    if not isolation.is_inside():
        if reason := isolation.missing():
            print(f"no chaos without namespaces: {reason}", file=sys.stderr)
            return 2
        os.environ[isolation.INSIDE_VARIABLE] = "1"
        words = isolation.command(sys.argv[1:])
        os.execvp(words[0], words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    redirects.install()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"chaos of {options.rounds} rounds, seed {seed}", flush=True)
    campaign = Campaign(seed, options.seconds, [kind for kind in Kind if re.search(options.only, kind)])
    broken = campaign.run(range(options.first, options.first + options.rounds), options.folder)
    print(f"{broken} of {options.rounds} rounds broke, seed {seed}" if broken else "nothing broke", flush=True)
    return 1 if broken else 0


@dataclass(frozen=True, slots=True)
class Campaign:
    """Rounds whose plans follow from one seed."""

    seed: int
    fault_seconds: float
    kinds: Sequence[Kind]

    def run(self, numbers: range, parent: Path | None) -> int:
        """Runs rounds on as many clusters as they need, and returns how many of them broke."""
        broken = 0
        left = list(numbers)
        while left:
            kind = (left[0] - 1) // ROUNDS_OF_A_CLUSTER
            on_this = [number for number in left if (number - 1) // ROUNDS_OF_A_CLUSTER == kind]
            folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=parent))
            worked, done = self._run_on_one(folder, on_this, QUORUMS[kind % len(QUORUMS)])
            left = left[done:]
            broken += 0 if worked else 1
            if worked:
                shutil.rmtree(folder)
            else:
                print(f"  logs are in {folder}", flush=True)
        return broken

    def _run_on_one(self, folder: Path, numbers: list[int], quorums: tuple[int, int, int]) -> tuple[bool, int]:
        """Runs rounds on one cluster until one breaks, so that the logs end there. Returns whether all went well, and
        how many there were."""
        with ChaosCluster(folder, self.seed, quorums) as cluster:
            for done, number in enumerate(numbers, 1):
                one = ChaosRound(cluster, number, f"{self.seed} {number}", self.fault_seconds, self.kinds)
                print(f"round {number} (--seed {self.seed} --first {number} --rounds 1), E/Qw/Qa {quorums}:")
                for fault in one.plan:
                    print(f"    {fault}", flush=True)
                result = one.run()
                tell(result)
                if result.complaints:
                    return False, done
        return True, len(numbers)


def tell(result: Result) -> None:
    print(
        f"  {result.seconds:.0f} s, all went on after {result.recovered_in:.1f} s; {result.receipts} receipts, "
        f"{result.stored} stored, {result.delivered} delivered, visits {result.visits}; packets {result.packets}",
        flush=True,
    )
    for complaint in result.complaints:
        print(f"  BROKEN: {complaint}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
