"""How long this process has been running, for the ready line of a server."""

import os
import time

_IMPORTED_S = time.monotonic()
_START_FIELD = 22
"""The number of the field `starttime` in /proc/PID/stat, counted from 1 (proc_pid_stat(5))."""


def process_age_seconds() -> float:
    """Returns the seconds since the kernel started this process, so that the interpreter's own start and the imports
    are counted. Where there is no /proc, returns the seconds since the import of this module."""
    try:
        with open("/proc/self/stat", "rb") as file:
            started_s = start_ticks(file.read()) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _IMPORTED_S
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)


def start_ticks(stat: bytes) -> int:
    """Returns when the process of a file /proc/PID/stat started, in clock ticks since the machine was booted. Raises
    ValueError or IndexError when the text is no such file.

    The fields are counted behind the last parenthesis, because the name of the program, the second field, stands in
    parentheses and may hold blanks and parentheses itself."""
    behind_name = stat[stat.rindex(b")") + 1 :].split()
    return int(behind_name[_START_FIELD - 3])
