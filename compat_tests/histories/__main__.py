"""`python -m compat_tests.histories [--count 200] [--seed N] [--tell]` tells the same histories to Apache's broker and
ours, and exits with 1 when they differ in a way that nobody has listed. `--tell` prints the steps of those, `--record`
keeps Apache's answers for the test that goes without Java."""

import argparse
import contextlib
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from compat_tests.apache import ApachePulsar
from compat_tests.cluster.apache_seats import BROKER_START_SECONDS, class_path
from compat_tests.harness import Server
from compat_tests.histories import recorded
from compat_tests.histories.differences import UNKNOWN, Difference, compare
from compat_tests.histories.replay import Replay, Teller
from compat_tests.histories.steps import Author, History, TimeOut
from compat_tests.products import Magnetar

SETTINGS = {"transactionCoordinatorEnabled": "true", "acknowledgmentAtBatchIndexLevelEnabled": "true"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.histories", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many histories (default 200)")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first; each further one has the next")
    parser.add_argument("--tell", action="store_true", help="print the steps of histories that differ")
    parser.add_argument("--record", action="store_true", help=f"write some of Apache's answers to {recorded.PATH.name}")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"{options.count} histories from seed {first}", flush=True)
    apache = ApachePulsar(Path(class_path().removesuffix("/*")))
    reasons: Counter[str] = Counter()
    replays: dict[int, Replay] = {}
    with (
        tempfile.TemporaryDirectory(prefix="histories-") as folder,
        contextlib.closing(Server(Path(folder, "apache"), product=apache, settings=SETTINGS)) as theirs,
        Server(Path(folder, "ours"), product=Magnetar(), settings=SETTINGS) as ours,
    ):
        theirs.start(BROKER_START_SECONDS)
        tellers = [Teller(each.broker_port, each.web_url) for each in (theirs, ours)]
        for seed in range(first, first + options.count):
            history = Author(seed).write()
            replay, found = tell_both(history, *tellers)
            if not has_time_outs(history):
                replays[seed] = replay
            elif found is not None:
                _, found = tell_both(history, *tellers)
            reasons["alike" if found is None else found.reason] += 1
            if found is not None and found.reason == UNKNOWN:
                print(f"--seed {seed} --count 1: {found.text}", flush=True)
                for number, step in enumerate(history.steps if options.tell else ()):
                    print(f"    {number} {step}", flush=True)
        ours.assert_no_errors()
        theirs.kill()  # Apache's standalone may take minutes to stop.
    if options.record:
        recorded.write(replays)
    for reason, count in reasons.most_common():
        print(f"{count} histories: {reason}")
    return 1 if reasons[UNKNOWN] else 0


def tell_both(history: History, apache: Teller, ours: Teller) -> tuple[Replay, Difference | None]:
    """Returns Apache's replay, and how ours differs from it."""
    replay = apache.tell(history)
    return replay, compare(history, replay, ours.tell(history))


def has_time_outs(history: History) -> bool:
    """Returns whether the clock matters. Such a history is told once more if brokers differ, because a machine that
    stood still may have let a transaction time out too early; and it is not recorded."""
    return any(isinstance(step, TimeOut) for step in history.steps)


if __name__ == "__main__":
    sys.exit(main())
