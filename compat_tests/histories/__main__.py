"""`python -m compat_tests.histories [--count 200] [--seed N] [--tell]` tells the same histories to Apache's broker and
ours, and exits with 1 when they differ in a way that nobody has listed. `--tell` prints the steps of those."""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from compat_tests.apache import ApachePulsar
from compat_tests.cluster.apache_seats import class_path
from compat_tests.harness import Server
from compat_tests.histories.differences import UNKNOWN, Difference, compare
from compat_tests.histories.replay import Teller
from compat_tests.histories.steps import Author, History
from compat_tests.products import Magnetar

SETTINGS = {"transactionCoordinatorEnabled": "true", "acknowledgmentAtBatchIndexLevelEnabled": "true"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.histories", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many histories (default 200)")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first; each further one has the next")
    parser.add_argument("--tell", action="store_true", help="print the steps of histories that differ")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"{options.count} histories from seed {first}", flush=True)
    apache = ApachePulsar(Path(class_path().removesuffix("/*")))
    reasons: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="histories-") as folder,
        Server(Path(folder, "apache"), product=apache, settings=SETTINGS) as theirs,
        Server(Path(folder, "ours"), product=Magnetar(), settings=SETTINGS) as ours,
    ):
        tellers = [Teller(each.broker_port, each.web_url) for each in (theirs, ours)]
        for seed in range(first, first + options.count):
            history = Author(seed).write()
            found = difference(history, *tellers)
            reasons["alike" if found is None else found.reason] += 1
            if found is not None and found.reason == UNKNOWN:
                print(f"--seed {seed} --count 1: {found.text}", flush=True)
                for number, step in enumerate(history.steps if options.tell else ()):
                    print(f"    {number} {step}", flush=True)
        ours.assert_no_errors()
    for reason, count in reasons.most_common():
        print(f"{count} histories: {reason}")
    return 1 if reasons[UNKNOWN] else 0


def difference(history: History, apache: Teller, ours: Teller) -> Difference | None:
    """Returns how two brokers differ. A history that differs is told once more: a machine that stood still may have
    let a transaction time out."""
    found = compare(history, apache.tell(history), ours.tell(history))
    if found is not None and found.reason == UNKNOWN:
        found = compare(history, apache.tell(history), ours.tell(history))
    return found


if __name__ == "__main__":
    sys.exit(main())
