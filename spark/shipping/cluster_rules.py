"""What follows from where Spark runs: which Python its workers take, and how many tasks its cores are worth."""

import re
from collections.abc import Mapping

PYTHON_VARIABLE = "PYSPARK_PYTHON"
"""The environment variable by which a user names the Python of Spark's workers."""
ONE_MACHINE = re.compile(r"local(\[[^\]]*\])?")
"""Masters that run everything in the driver's own process (SparkContext.createTaskScheduler). `local-cluster[…]`, for
Spark's own tests, starts executors with folders of their own."""


def is_one_machine(master: str) -> bool:
    """Returns whether all of Spark runs in the driver's process, so that the driver's files are everybody's."""
    return ONE_MACHINE.fullmatch(master) is not None


def workers_python(master: str, executable: str, version: tuple[int, int]) -> str:
    """Returns the Python for Spark's workers when a user has named none. One and the same name has to hold for
    executors and for the driver's workers that plan queries. On one machine it is the driver's own file. On other
    machines that file need not exist, so there it is a name such as `python3.11`, which each machine looks up in its
    own PATH: Spark refuses another minor version than the driver's (PYTHON_VERSION_MISMATCH)."""
    return executable if is_one_machine(master) else f"python{version[0]}.{version[1]}"


def may_change(settings: Mapping[str, str]) -> bool:
    """Returns whether the number of executors follows the work (Spark's dynamic allocation), so that it says nothing
    before there is any work."""
    return settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true"


class ExecutorsSettle:
    """Says when the executors of a cluster have come: when there is one, and for `quiet_seconds` no other one came; at
    the latest after `seconds_max`. Times are seconds of one clock."""

    def __init__(self, now: float, quiet_seconds: float, seconds_max: float) -> None:
        self._quiet_seconds = quiet_seconds
        self._deadline = now + seconds_max
        self._executors = 0
        self._since = now

    def are_there(self, now: float, executors: int) -> bool:
        """Takes how many executors there are now. Returns whether to go on without waiting for more."""
        if executors != self._executors:
            self._executors, self._since = executors, now
        is_quiet = executors > 0 and now - self._since >= self._quiet_seconds
        return is_quiet or now >= self._deadline
