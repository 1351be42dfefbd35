"""CPU seconds and memory of a process with all its descendants, from /proc (Linux)."""

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
UTIME_FIELD, PARENT_FIELD = 11, 1
"""The fields' places behind the command name. That name may hold spaces and parentheses, so the fields begin behind the
last ')'."""


def stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat. Raises OSError when the process is gone."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """Returns the process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(int(stat_fields(int(entry.name))[PARENT_FIELD]), []).append(int(entry.name))
            except OSError:
                continue
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def cpu_seconds(pid: int, *, with_descendants: bool = True) -> float:
    """Returns the user and system time of the process tree so far, including children that have ended, or of the one
    process."""
    ticks = 0
    for each in tree(pid) if with_descendants else [pid]:
        ticks += sum(map(int, stat_fields(each)[UTIME_FIELD : UTIME_FIELD + (4 if with_descendants else 2)]))
    return ticks / TICKS_PER_SECOND


def cpu_clock_seconds(pid: int) -> float:
    """Returns the user and system time of one process so far, in nanoseconds and not in ticks as `cpu_seconds`."""
    # The kernel's number of a process's clock is made of its pid (MAKE_PROCESS_CPUCLOCK, CPUCLOCK_SCHED).
    return time.clock_gettime(~pid << 3 | 2)


def memory_mb(pid: int, *, with_descendants: bool = True) -> float:
    """Returns the proportional set size (PSS) of the process tree, or of the one process, in MB (10^6 bytes)."""
    kilobytes = 0
    for each in tree(pid) if with_descendants else [pid]:
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kilobytes += int(line.split()[1])
    return kilobytes * 1024 / 1e6
