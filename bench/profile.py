"""Where the server's main thread spends its CPU time under a load: the server runs under cProfile, and the functions
with the most time are printed.

cProfile makes every call slower, and the loop is asyncio's own (see `profiled.py`), so the shares can be trusted and
the rates cannot.
"""

import pstats
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.loads import BATCH, NAMESPACE, load, publish, subscribe
from compat_tests.harness import Server
from compat_tests.products import Magnetar

HOTTEST = 10
MESSAGES = 200_000
BATCHED_MESSAGES = 600_000


def profile_publish(server: Server) -> None:
    subscribe(server, "profile", "bench")
    publish(server, "profile", MESSAGES)


def profile_batches(server: Server) -> None:
    subscribe(server, "profile", "bench")
    publish(server, "profile", BATCHED_MESSAGES, BATCH)


def profile_tail(server: Server) -> None:
    load("bench.official", "tail", server, "--topic", "profile", "--messages", str(MESSAGES // 4))


def profile_catch_up(server: Server) -> None:
    """Profiles a catch-up read. The publish before it is in the profile too, because a restart between them would end
    the profile."""
    subscribe(server, "profile", "bench")
    publish(server, "profile", MESSAGES)
    load("bench.driver", "consume", server, "--topic", f"{NAMESPACE}/profile", "--messages", str(MESSAGES))


LOADS: dict[str, Callable[[Server], None]] = {
    "publish": profile_publish,
    "batches": profile_batches,
    "tail": profile_tail,
    "catchup": profile_catch_up,
}


def profile(name: str) -> str:
    """Runs the load and returns the ten functions with the most time of their own: share, calls, place."""
    with TemporaryDirectory(prefix="bench-profile-") as folder:
        output = Path(folder) / "profile"
        product = Magnetar((sys.executable, "-m", "bench.profiled", str(output)))
        with Server(Path(folder), product=product) as server:
            LOADS[name](server)
        return hottest(pstats.Stats(str(output)))


def hottest(stats: pstats.Stats) -> str:
    rows = []
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in entries.values())
    for (file, line, name), (_, calls, own, _, _) in sorted(entries.items(), key=lambda item: -item[1][2])[:HOTTEST]:
        place = name if file == "~" else f"{Path(file).parent.name}/{Path(file).name}:{line} {name}"
        rows.append(f"{own / total:6.1%}  {own:7.2f} s  {calls:>10,} calls  {place}")
    return "\n".join(rows)
