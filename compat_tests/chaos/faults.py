"""Makes the faults of a plan on a running cluster, each at its time, and takes them back."""

import contextlib
import errno
import os
import threading
import time
from pathlib import Path

from compat_tests.chaos.cluster import ChaosCluster
from compat_tests.chaos.link_rules import LinkRule
from compat_tests.chaos.plan import Fault, Kind

FILLER = "filler"
FILLED_AT_ONCE = 1 << 20


class Faults:
    """The faults of one round. `run` blocks until all have ended; after `close` nothing is wrong any more, whatever
    happened before."""

    def __init__(self, cluster: ChaosCluster, plan: tuple[Fault, ...]) -> None:
        self._cluster = cluster
        self._plan = plan
        self._stopping = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        due = [(each.begins, True, each) for each in self._plan] + [(each.ends, False, each) for each in self._plan]
        for at, is_begin, fault in sorted(due, key=lambda each: each[:2]):
            if self._stopping.wait(max(0.0, began + at - time.monotonic())):
                return
            (self._begin if is_begin else self._end)(fault)

    def close(self) -> None:
        self._stopping.set()
        self._cluster.network.heal()
        for fault in self._plan:
            self._end(fault)

    def _begin(self, fault: Fault) -> None:
        cluster, target = self._cluster, fault.target
        match fault.kind:
            case Kind.PARTITION | Kind.ONE_WAY | Kind.DELAY | Kind.LOSS:
                directions = [(target, fault.other)]
                if fault.kind is not Kind.ONE_WAY:
                    directions.append((fault.other, target))
                cluster.network.begin(fault, directions, _rule(fault))
            case Kind.FREEZE:
                cluster.keepers[target].freeze()
            case Kind.KILL:
                cluster.keepers[target].kill()
            case Kind.CLOCK:
                cluster.controls[target].move_clock(fault.amount)
            case Kind.SLOW_DISK:
                cluster.controls[target].slow_syncs(fault.amount)
            case Kind.FAILED_SYNC:
                cluster.controls[target].fail_syncs(errno.EIO)
            case Kind.FULL_DISK:
                fill(cluster.folder_of(target))

    def _end(self, fault: Fault) -> None:
        """Takes a fault back. May be called again."""
        cluster, target = self._cluster, fault.target
        match fault.kind:
            case Kind.FREEZE:
                cluster.keepers[target].thaw()
            case Kind.KILL:
                cluster.keepers[target].release()
            case Kind.CLOCK | Kind.SLOW_DISK | Kind.FAILED_SYNC:
                cluster.controls[target].plain()
            case Kind.FULL_DISK:
                (cluster.folder_of(target) / FILLER).unlink(missing_ok=True)
            case _:
                cluster.network.end(fault)


def _rule(fault: Fault) -> LinkRule:
    if fault.kind is Kind.LOSS:
        return LinkRule(loss=fault.amount)
    return LinkRule(delay=fault.amount) if fault.kind is Kind.DELAY else LinkRule(is_cut=True)


def fill(folder: Path) -> None:
    """Writes zeros into a file until the file system is full."""
    with contextlib.suppress(OSError):
        fd = os.open(folder / FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for size in (FILLED_AT_ONCE, 4096):
                with contextlib.suppress(OSError):
                    while os.write(fd, bytes(size)):
                        pass
        finally:
            os.close(fd)
