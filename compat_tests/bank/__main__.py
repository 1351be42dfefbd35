"""`python -m compat_tests.bank [--rounds 100] [--brokers 3] [--seed N]` tells each round, and exits with 1 when a claim
was broken or the bank stood still. The folder with the data and the logs is kept then."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from compat_tests import redirects
from compat_tests.bank.campaign import Campaign, Round
from compat_tests.bank.site import BROKERS, Standalone, ThreeBrokers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.bank", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="how many kills (default 100)")
    parser.add_argument("--brokers", type=int, default=1, choices=(1, BROKERS), help="standalone (1) or a cluster (3)")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices, but not the times, of a run")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    redirects.install()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder = Path(tempfile.mkdtemp(prefix="bank-"))
    print(f"bank of {options.rounds} rounds, seed {seed}, in {folder}", flush=True)
    try:
        with (Standalone if options.brokers == 1 else ThreeBrokers)(folder) as site:
            done = Campaign(site, folder, seed).run(options.rounds, tell)
    except (AssertionError, TimeoutError) as error:
        print(f"BROKEN: {type(error).__name__}: {error}", flush=True)
        return 1
    if done[-1].complaints:
        return 1
    shutil.rmtree(folder)
    print(f"nothing broke: {sum(each.committed for each in done)} transfers", flush=True)
    return 0


def tell(done: Round) -> None:
    print(done, flush=True)
    for complaint in done.complaints:
        print(f"  BROKEN: {complaint}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
