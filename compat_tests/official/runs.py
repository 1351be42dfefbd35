"""Runs the suite's files one after the other against a server, each test within a time limit.

The tests of a file share one process, as upstream runs them. When a test takes too long its process is killed, the test
counts as failed, and the rest of the file goes on in a new process.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DRIVER = Path(__file__).with_name("driver.py")

TEST_SECONDS_MAX = 60.0
"""The longest test takes 7 s against Apache Pulsar; several wait for ever for a message that does not come."""

LOAD_SECONDS_MAX = 30.0
"""The time for what comes before a process's first test: importing the client and the module."""

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """`outcome` is pass, fail, skip, `time-out`, or `missing` for a test that the suite does not have."""

    file: str
    name: str
    outcome: str
    seconds: float
    detail: str = ""


def copy_suite(tests: Path, folder: Path, urls: Mapping[str, str], token: str) -> Path:
    """Copies the suite and puts the server's addresses into it: `urls` maps `localhost:6650` and the others to their
    replacements."""
    copy = folder / "tests"
    shutil.copytree(tests, copy)
    for path in copy.glob("*_test.py"):
        text = path.read_text()
        for upstream, ours in urls.items():
            text = text.replace(upstream, ours)
        path.write_text(text)
    (copy / ".test-token.txt").write_text(token)
    return copy


class FileRun:
    """Runs one of the suite's files."""

    def __init__(self, python: Path, tests: Path, folder: Path, file: str) -> None:
        self._python = python
        self._tests = tests
        self._report = folder / f"{file}.report"
        self._log = folder / f"{file}.log"
        self._file = file

    def run(self, names: Sequence[str], seconds_max: float = TEST_SECONDS_MAX) -> list[Outcome]:
        """Runs the tests and returns their outcomes in the suite's order."""
        outcomes: dict[str, Outcome] = {}
        while left := [name for name in names if name not in outcomes]:
            fresh = self._run_process(left, seconds_max)
            outcomes |= fresh
            if not fresh:
                outcomes |= {name: Outcome(self._file, name, "missing", 0.0) for name in left}
        return [outcomes[name] for name in names]

    def _run_process(self, names: Sequence[str], seconds_max: float) -> dict[str, Outcome]:
        """Runs tests in one process, and returns the outcomes of those that it came to."""
        self._report.write_text("")
        command = [str(self._python), str(DRIVER), self._file, str(self._report), *names]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._tests,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
            )
        try:
            return self._watch(process, seconds_max)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _watch(self, process: "subprocess.Popen[bytes]", seconds_max: float) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        current = ""
        began = time.monotonic()
        read = 0
        while True:
            ended = process.poll() is not None
            text = self._report.read_text()
            lines = text[read:].rpartition("\n")[0].splitlines()
            read += sum(len(line) + 1 for line in lines)
            for line in lines:
                said = json.loads(line)
                now = time.monotonic()
                if "begin" in said:
                    current = said["begin"]
                else:
                    name = said["end"]
                    outcomes[name] = Outcome(self._file, name, said["outcome"], now - began, said["detail"])
                    current = ""
                began = now
            if ended:
                if current:
                    detail = f"the process ended with code {process.returncode}"
                    outcomes[current] = Outcome(self._file, current, "fail", time.monotonic() - began, detail)
                return outcomes
            if time.monotonic() - began > (seconds_max if current else LOAD_SECONDS_MAX):
                if current:
                    outcomes[current] = Outcome(self._file, current, "time-out", seconds_max)
                return outcomes
            time.sleep(POLL_SECONDS)
