"""Runs a module under cProfile: `python -m bench.profiled OUTPUT -m MODULE ARGUMENTS…`, as `python -m cProfile` would.

There are two differences. The clock is the thread's CPU time, so that waiting counts nothing. And uvloop is hidden,
because cProfile cannot see it and would add the loop's own work to the function that called it last.
"""

import cProfile
import runpy
import sys
import time


def main() -> None:
    output, dash_m, module, *arguments = sys.argv[1:]
    assert dash_m == "-m", "usage: python -m bench.profiled OUTPUT -m MODULE ARGUMENTS…"
    sys.argv = [module, *arguments]
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # makes `import uvloop` an ImportError
    profiler = cProfile.Profile(time.thread_time)
    try:
        profiler.runcall(runpy.run_module, module, run_name="__main__", alter_sys=True)
    finally:
        profiler.dump_stats(output)


if __name__ == "__main__":
    main()
