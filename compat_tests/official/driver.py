"""Runs tests of one of the suite's modules and reports each as it begins and ends.

`runs.py` starts this file with the suite's own Python, in the suite's `tests` folder. It imports nothing of this
project.
Usage: driver.py MODULE REPORT-FILE TEST… Each line of the report is a JSON object: {"begin": name}, or
{"end": name, "outcome": "pass" | "fail" | "skip", "detail": text}.
"""

import importlib
import json
import os
import sys
import unittest
from typing import Any, TextIO

DETAIL_CHARACTERS_MAX = 4_000


class Reporter(unittest.TestResult):
    """Writes each line at once, because the parent watches the file, and kills this process when a test takes too
    long."""

    def __init__(self, report: TextIO) -> None:
        super().__init__()
        self._report = report
        self._outcome = ("pass", "")

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._outcome = ("pass", "")
        self._write({"begin": name_of(test)})

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._fail(self.errors[-1][1])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._fail(self.failures[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail("".join(str(each) for each in err[:2]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._outcome = ("skip", reason)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        outcome, detail = self._outcome
        self._write({"end": name_of(test), "outcome": outcome, "detail": detail[-DETAIL_CHARACTERS_MAX:]})

    def _fail(self, detail: str) -> None:
        self._outcome = ("fail", detail)

    def _write(self, line: dict[str, str]) -> None:
        self._report.write(json.dumps(line) + "\n")
        self._report.flush()


def name_of(test: unittest.TestCase) -> str:
    return test.id().rpartition(".")[2]


def tests_in(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for each in suite:
        found += tests_in(each) if isinstance(each, unittest.TestSuite) else [each]
    return found


def main(module: str, report_path: str, *names: str) -> None:
    sys.path.insert(0, os.getcwd())
    found = tests_in(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module)))
    wanted = [test for test in found if name_of(test) in names]
    with open(report_path, "a") as report:
        unittest.TestSuite(wanted).run(Reporter(report))
    # Clients that the tests left open have threads of their own, for which nobody waits.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
