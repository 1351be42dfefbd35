"""`python -m compat_tests.soak [--minutes 10] [--seed N]` prints what broke and exits with 1, or prints a table and
exits with 0."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from compat_tests import redirects
from compat_tests.soak.runner import Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the load lasts (default 10)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices of an earlier soak")
    parser.add_argument(
        "--folder", type=Path, default=None, help="keeps data and logs there (default: a temporary one)"
    )
    options = parser.parse_args()
    redirects.install()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"soak of {options.minutes:g} minutes, seed {seed}", flush=True)
    if options.folder is not None:
        return soak(options.folder, options.minutes, seed)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        return soak(Path(folder), options.minutes, seed)


def soak(folder: Path, minutes: float, seed: int) -> int:
    verdict = Soak(folder, minutes, seed).run()
    width = max(len(name) for name, _ in verdict.table)
    print("\n".join(f"  {name:{width}}  {value}" for name, value in verdict.table))
    if not verdict.complaints:
        print("nothing broke")
        return 0
    print(f"{len(verdict.complaints)} complaints, seed {seed}:")
    print("\n".join(f"  {each}" for each in verdict.complaints))
    return 1


if __name__ == "__main__":
    sys.exit(main())
