"""CPU seconds and memory of a process with all its descendants, from /proc (Linux)."""

import os
import time
from contextlib import suppress
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
UTIME_FIELD, PARENT_FIELD = 11, 1
"""The fields' places behind the command name. That name may hold spaces and parentheses, so the fields begin behind the
last ')'."""


def stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat. Raises OSError when the process is gone."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(pid: int) -> dict[int, list[str]]:
    """Returns the fields of /proc/PID/stat of the process and of its descendants, by pid. Raises OSError when the
    process itself is gone."""
    fields = {pid: stat_fields(pid)}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        # A descendant that has ended since the folder was listed is none any more: its parent counts its time.
        with suppress(OSError):
            if entry.name.isdecimal() and (each := int(entry.name)) != pid:
                fields[each] = stat_fields(each)
                children.setdefault(int(fields[each][PARENT_FIELD]), []).append(each)
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return {each: fields[each] for each in found}


def cpu_seconds(pid: int, *, with_descendants: bool = True) -> float:
    """Returns the user and system time of the process tree so far, including children that have ended, or of the one
    process."""
    if with_descendants:
        ticks = sum(sum(map(int, fields[UTIME_FIELD : UTIME_FIELD + 4])) for fields in tree(pid).values())
    else:
        ticks = sum(map(int, stat_fields(pid)[UTIME_FIELD : UTIME_FIELD + 2]))
    return ticks / TICKS_PER_SECOND


def cpu_clock_seconds(pid: int) -> float:
    """Returns the user and system time of one process so far, in nanoseconds and not in ticks as `cpu_seconds`."""
    # The kernel's number of a process's clock is made of its pid (MAKE_PROCESS_CPUCLOCK, CPUCLOCK_SCHED).
    return time.clock_gettime(~pid << 3 | 2)


def memory_mb(pid: int, *, with_descendants: bool = True) -> float:
    """Returns the proportional set size (PSS) of the process tree, or of the one process, in MB (10^6 bytes)."""
    if not with_descendants:
        return _pss(pid) / 1e6
    total = 0
    for each in tree(pid):
        try:
            total += _pss(each)
        except OSError:
            if each == pid:
                raise
    return total / 1e6


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
