"""Every command line of docs/MESSAGES.md runs as it stands against a real server, and prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.harness import Server

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "MESSAGES.md"
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
INSTALLS = "pip install"
ENDLESS = "# until Ctrl-C"
ENDLESS_SECONDS = 2
INTERRUPTED = (124, 130)
"""What `timeout` returns for a command that it interrupted, and what the command itself returns."""


def pattern_of(output: str) -> str:
    """Returns the expression for an output in which `…` stands for anything within its line."""
    return re.escape(output).replace("…", "[^\n]*")


@pytest.mark.process
def test_the_page_runs_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "magnetar"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m magnetar "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    blocks = [each for each in BLOCK.findall(PAGE.read_text()) if INSTALLS not in each[0]]
    assert len(blocks) >= 9
    with Server(tmp_path / "server") as server:
        environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "MAGNETAR_SERVICE_URL": server.broker_url,
            "MAGNETAR_ADMIN_URL": server.web_url,
        }
        for script, output in blocks:
            run_block(script, output, work, environment)
        server.assert_no_errors()


def run_block(script: str, output: str, folder: Path, environment: dict[str, str]) -> None:
    if ENDLESS in script:
        for line in script.splitlines():
            done = bash(f"timeout --signal=INT {ENDLESS_SECONDS} {line}", folder, environment)
            assert (done.returncode in INTERRUPTED, done.stderr) == (True, ""), line
        return
    done = bash(f"set -euo pipefail\n{script}", folder, environment)
    assert (done.returncode, done.stderr) == (0, ""), script
    if output:
        assert re.fullmatch(pattern_of(output), done.stdout), f"{script}\n{done.stdout}"


def bash(script: str, folder: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = ["bash", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
