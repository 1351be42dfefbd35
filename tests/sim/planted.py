"""Runs a program with a planted bug of `transaction_mutations`, so that other tests than the simulation can be tried by
it: `MAGNETAR_INTERPRETER=".venv/bin/python -m tests.sim.planted BUG" make bank ROUNDS=10`."""

import runpy
import sys

from tests.sim.transaction_mutations import MUTATIONS


def main() -> None:
    """Takes the name of the bug, `-m`, a module and its arguments."""
    bug, option, module, *words = sys.argv[1:]
    assert option == "-m", "usage: python -m tests.sim.planted BUG -m MODULE …"
    sys.argv = [module, *words]
    with MUTATIONS[bug]():
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
