"""`make check` stays quick because its tests start no process: `tests/conftest.py` sees to that."""

import os
import subprocess
import sys

import pytest


def test_a_test_of_make_check_cannot_start_a_process() -> None:
    with pytest.raises(AssertionError, match="starts a process, so mark it"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(AssertionError, match="starts a process, so mark it"):
        os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
