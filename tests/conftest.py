"""Settings for all tests of this folder: the property tests judge results, and never the speed of the machine; the
garbage collector looks only at what tests make; and the tests of `make check` start no process."""

import gc
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests.rounds import rounds

JUDGE_THE_MACHINE = (hypothesis.HealthCheck.too_slow,)
"""Hypothesis's alarms that a busy machine sets off because making inputs is slow. The deadline of a run, which is off
too, is the other one."""

hypothesis.settings.register_profile(
    "magnetar",
    parent=hypothesis.settings.default,
    max_examples=rounds(100),
    deadline=None,
    suppress_health_check=JUDGE_THE_MACHINE,
)
hypothesis.settings.load_profile("magnetar")

LEFT_OUT = ("process", "slow")
"""The marks of the tests that `make check` leaves out."""
STARTS_OF_PROCESSES = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system")
"""Python's audit events of whatever starts a process."""

_unit_test: str | None = None
"""The test that runs, if `make check` runs it too."""


def _refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    is_pythons_own = arguments[:1] == ("uname",)  # `platform` asks once for the processor
    if event in STARTS_OF_PROCESSES and _unit_test is not None and not is_pythons_own:
        raise AssertionError(f"{_unit_test} starts a process, so mark it: @pytest.mark.process")


sys.addaudithook(_refuse_processes)


def pytest_sessionstart() -> None:
    """Switches the collector off while test modules are imported: they and all that they import stay for ever."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempts what was imported from all later collections, which took an eighth of the CPU time of the unit tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _unit_test
    _unit_test = None if any(item.get_closest_marker(mark) for mark in LEFT_OUT) else item.nodeid
    try:
        return (yield)
    finally:
        _unit_test = None
