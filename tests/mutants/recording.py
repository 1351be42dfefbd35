"""Records once, as a plugin of pytest, which test runs which line and how long it takes; every mutant's tests are
chosen by this recording.

The recording is a folder that is not under version control. It is made anew when it is missing, or on request.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest

from tests.mutants.operators import Mutant

FOLDER_VARIABLE = "MAGNETAR_MUTANTS_RECORDING"
RUN_VARIABLE = "MAGNETAR_MUTANTS_RUN"
UNITS = ("tests/metadata", "tests/pulsar_proto", "tests/server", "tests/storage")
RUNS = {
    "units": ("not process and not slow and not long", UNITS),
    "processes": ("process and not slow and not long", UNITS),
    "spark": ("not slow and not long", ("tests/spark",)),
}
"""The marker expression and the folders of each run. Lines that a test runs only in a child process are not
recorded."""
PACKAGES = ("magnetar", "pulsar_proto")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
SECONDS_OF_A_TRIAL = 45.0
"""A mutant gets its tests, nearest first, until the seconds that they took when they were recorded add up to this."""
TESTS_OF_A_TRIAL = 500


class Recorder:
    """Records, in one process, the lines of each test by `coverage`'s contexts, and the seconds that the test took."""

    def __init__(self, folder: Path, packages: Iterable[str]) -> None:
        name = f"{os.environ[RUN_VARIABLE]}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
        self._seconds_file = folder / f"{name}.json"
        self._seconds: dict[str, float] = {}
        self._unsound: set[str] = set()
        self._coverage = coverage.Coverage(data_file=str(folder / f"{name}.sqlite"), source=list(packages))
        self._coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._unsound.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        sound = {test: seconds for test, seconds in self._seconds.items() if test not in self._unsound}
        self._seconds_file.write_text(json.dumps(sound))


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        config.pluginmanager.register(Recorder(Path(folder), PACKAGES), "mutants-recorder")


def record(root: Path, folder: Path) -> None:
    """Runs the tests once, which takes minutes. Tests that fail or are skipped are left out, because they could not
    catch a mutant."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, (marks, tests) in RUNS.items():
        command = [*PYTEST, "-p", "tests.mutants.recording", "-n", "2", "--dist", "loadfile", "-m", marks, *tests]
        subprocess.run(command, cwd=root, env={**os.environ, FOLDER_VARIABLE: str(folder), RUN_VARIABLE: name})
    (folder / "complete").touch()


def collect(root: Path) -> list[str]:
    """Returns the names of the tests that exist now."""
    found: list[str] = []
    for marks, tests in RUNS.values():
        command = [*PYTEST, "--collect-only", "-m", marks, *tests]
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True)
        found += [line for line in listed.stdout.splitlines() if "::" in line]
    return found


@dataclass(slots=True)
class Recording:
    """Which lines each test runs. `tests_of()` returns the tests that should catch a mutant."""

    seconds: dict[str, float] = field(default_factory=dict)
    """By test: how long it took without a mutant. Only tests that passed are in here."""
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """By path and line: the tests that ran it. A line that ran on import, before any test, has none."""

    @classmethod
    def load(cls, folder: Path, root: Path) -> "Recording":
        recording = cls()
        for each in folder.glob("*.json"):
            recording.seconds |= json.loads(each.read_text())
        for each in folder.glob("*.sqlite"):
            data = coverage.CoverageData(str(each))
            data.read()
            for measured in data.measured_files():
                path = Path(measured).resolve().relative_to(root.resolve()).as_posix()
                known = recording.lines.setdefault(path, {})
                for line, contexts in data.contexts_by_lineno(measured).items():
                    known.setdefault(line, set()).update(filter(None, contexts))
        return recording

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Returns the tests of a mutant, nearest first. For a line that only runs on import these are the tests that
        ran any line of its file."""
        path = mutant.path
        known = self.lines.get(path, {})
        found = set().union(*(known.get(line, set()) for line in range(mutant.line, mutant.last_line + 1)))
        if not found and mutant.on_import:
            found = set().union(*known.values())
        chosen: list[str] = []
        seconds = 0.0
        sound = found & self.seconds.keys()
        for test in sorted(sound, key=lambda test: (-nearness(path, test), self.seconds[test], test)):
            took = self.seconds[test]
            if len(chosen) >= TESTS_OF_A_TRIAL or (chosen and seconds + took > SECONDS_OF_A_TRIAL):
                continue
            chosen.append(test)
            seconds += took
        return chosen

    def seconds_of(self, tests: Iterable[str]) -> float:
        return sum(self.seconds[test] for test in tests)

    def keep(self, tests: Iterable[str]) -> None:
        """Forgets all tests but these, because the others do not exist under their names any more."""
        kept = set(tests)
        self.seconds = {test: seconds for test, seconds in self.seconds.items() if test in kept}


def nearness(path: str, test: str) -> int:
    """Returns how many folders and words of the file's name also occur in the test's name, since tests mirror the
    tree."""
    file = Path(path)
    tested = Path(test.partition("::")[0])
    common = 0
    for one, other in zip(file.parts[:-1], tested.parts[1:-1], strict=False):
        if one != other:
            break
        common += 1
    words = set(file.stem.split("_"))
    return 10 * common + 5 * len(words & set(tested.stem.split("_")[1:]))
