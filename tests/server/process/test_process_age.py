"""The age of a process."""

import subprocess
import sys
import time

import pytest

from magnetar.server.process.process_age import process_age_seconds, start_ticks

TELL = """
import time
before = time.clock_gettime(time.CLOCK_BOOTTIME)
time.sleep(0.1)
passed = time.clock_gettime(time.CLOCK_BOOTTIME) - before
from magnetar.server.process.process_age import process_age_seconds
print(passed, process_age_seconds())
"""
TICK_SECONDS = 0.01


def test_the_start_is_found_behind_a_name_with_blanks_and_parentheses() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert start_ticks(f"17 (a) b (c) S {fields}\n".encode()) == 22


@pytest.mark.parametrize("stat", [b"", b"17 (python) S 1 2"])
def test_a_text_that_is_no_stat_is_refused(stat: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        start_ticks(stat)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/self/stat")
def test_the_time_before_the_import_counts() -> None:
    begun = time.clock_gettime(time.CLOCK_BOOTTIME)
    told = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True).stdout
    ended = time.clock_gettime(time.CLOCK_BOOTTIME)
    passed_before_import, age = map(float, told.split())
    assert passed_before_import - TICK_SECONDS <= age <= ended - begun + TICK_SECONDS


def test_a_process_grows_older() -> None:
    first = process_age_seconds()
    assert 0 <= first <= process_age_seconds()
