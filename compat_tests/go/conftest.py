"""The Go program of this folder, built once for all its tests."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.unavailable import unavailable

FOLDER = Path(__file__).parent
BUILD_SECONDS = 900


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the program; its modules come from Go's own cache."""
    if shutil.which("go") is None:
        unavailable("needs Go")
    made = tmp_path_factory.mktemp("go") / "program"
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(made), "."]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    try:
        done = subprocess.run(
            command, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
        )
    except subprocess.TimeoutExpired:
        unavailable(f"the Go program is not built within {BUILD_SECONDS} s")
    if done.returncode != 0:
        unavailable(f"the Go program cannot be built: {done.stderr[-2000:]}")
    return made
