"""`python -m tests.twins [--minutes 5] [--seed N]` plays random scenarios to a server from the sources and to the one
that MAGNETAR_INTERPRETER names. It prints what they answer differently and exits with 1, or exits with 0."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.products import INTERPRETER_VARIABLE, Magnetar, interpreter
from tests.twins.pair import pair


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.twins", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first scenario; further ones follow it")
    options = parser.parse_args()
    if interpreter() == [sys.executable]:
        parser.error(f"{INTERPRETER_VARIABLE} must name the other server's Python")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"scenarios from seed {seed}", flush=True)
    end = time.monotonic() + options.minutes * 60
    count = different = 0
    servers = (Magnetar((sys.executable,)), Magnetar())
    with tempfile.TemporaryDirectory(prefix="twins-") as folder, pair(Path(folder), *servers) as both:
        while time.monotonic() < end:
            found = both.compare(seed + count)
            count += 1
            if found is not None:
                different += 1
                print(found, flush=True)
        print(", ".join(f"{answers} {kind}" for kind, answers in both.answers.most_common()))
        print(f"{count} scenarios, {different} of them answered differently")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
