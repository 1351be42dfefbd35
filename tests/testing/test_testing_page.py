"""Every Python program and command line of docs/TESTING.md runs as it stands, and prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.scenes import SECONDS_MAX, run_pytest

pytestmark = pytest.mark.process

PAGE = Path(__file__).resolve().parents[2] / "docs" / "TESTING.md"
PROGRAM = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PROGRAMS: dict[str, str] = dict(PROGRAM.findall(PAGE.read_text()))


def test_every_program_of_the_page_has_a_name() -> None:
    assert len(PROGRAMS) == PAGE.read_text().count("```python")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_run(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(PROGRAMS[name])
    if name.startswith("test_"):
        printed = run_pytest(tmp_path)
        assert printed.endswith("exit code 0"), printed
        return
    done = subprocess.run(
        [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr


def test_the_test_cases_run_under_unittest_too(tmp_path: Path) -> None:
    (tmp_path / "test_billing.py").write_text(PROGRAMS["test_billing.py"])
    done = subprocess.run(
        [sys.executable, "-m", "unittest"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert (done.returncode, "OK" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize("number", range(len(COMMANDS.findall(PAGE.read_text()))))
def test_the_command_lines_print_what_the_page_says(number: int, tmp_path: Path) -> None:
    script, output = COMMANDS.findall(PAGE.read_text())[number]
    program = tmp_path / "magnetar"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m magnetar "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(re.escape(output).replace("…", "[^\n]*"), done.stdout), done.stdout
