"""The Go test of docs/TESTING.md passes beside a server of `magnetar testing run`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.testing_page import beside_a_server, program_of_page
from compat_tests.unavailable import unavailable

FOLDER = Path(__file__).parent
BUILD_SECONDS = 900

pytestmark = pytest.mark.slow


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        unavailable("needs Go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "orders_test.go").write_text(program_of_page("orders_test.go"))
    environment = {**os.environ, "CGO_ENABLED": "0"}
    building = ["go", "test", "-mod=mod", "-buildvcs=false", "-c", "-o", "orders.test", "."]
    built = subprocess.run(
        building, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    if built.returncode != 0:
        unavailable(f"the Go test cannot be built: {built.stderr[-2000:]}")
    command = beside_a_server(["./orders.test", "-test.v"])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert (done.returncode, "--- PASS: TestAnOrderArrives" in done.stdout) == (0, True), done.stdout + done.stderr
