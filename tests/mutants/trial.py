"""Runs the tests of one mutant in a copy of the tree."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.mutants.operators import Mutant

SECONDS_LEAST = 40.0
TIMES_SLOWER = 4
"""A mutant's tests may take this many times the seconds that they took when they were recorded, because the machine may
be busy."""


class Outcome(StrEnum):
    CAUGHT = "caught"
    TOO_SLOW = "caught, hangs"
    SURVIVED = "survived"
    NOT_RUN = "survived, no test runs it"


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    outcome: Outcome
    tests: int
    by: str = ""
    """The test that caught the mutant."""

    @property
    def is_caught(self) -> bool:
        return self.outcome in (Outcome.CAUGHT, Outcome.TOO_SLOW)


class Copy:
    """A copy of all files of a tree that git knows, in which one mutant at a time is planted."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            if name and (root / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name, follow_symlinks=False)

    def judge(self, mutant: Mutant, tests: list[str], recorded_seconds: float) -> Verdict:
        if not tests:
            return Verdict(mutant, Outcome.NOT_RUN, 0)
        path = self.folder / mutant.path
        source = path.read_bytes()
        self._write(path, mutant.applied(source))
        try:
            outcome, by = self._run(tests, SECONDS_LEAST + TIMES_SLOWER * recorded_seconds)
        finally:
            self._write(path, source)
        return Verdict(mutant, outcome, len(tests), by)

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        # Python takes a compiled module for valid when time and size of the source are the same, which they may be
        # after a mutation.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def _run(self, tests: list[str], seconds_max: float) -> tuple[Outcome, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", "--hypothesis-seed=0", "--basetemp", str(self.folder / ".basetemp"), *tests]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Outcome.TOO_SLOW, ""
        if process.returncode == 0:
            return Outcome.SURVIVED, ""
        blamed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Outcome.CAUGHT, (blamed or [said[-300:]])[0]
