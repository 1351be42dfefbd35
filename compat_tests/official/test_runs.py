"""The runner of the official suite, on small suites of our own with tests that pass, fail, hang, die or are missing."""

import sys
from pathlib import Path

import pytest

from compat_tests.official.__main__ import Expected, find_tests, main, read_expected, report, summary
from compat_tests.official.runs import FileRun, Outcome, copy_suite

SUITE = """
import os, threading, unittest

class First(unittest.TestCase):
    def test_a_passes(self):
        open("ran", "a").write("a")

    def test_b_fails(self):
        self.assertEqual(1, 2, "one is not two")

    def test_c_raises(self):
        raise OSError("no such thing")

    def test_d_hangs(self):
        threading.Event().wait()

    def test_e_dies(self):
        os._exit(3)

    def test_f_is_skipped(self):
        self.skipTest("not today")

class Second(unittest.IsolatedAsyncioTestCase):
    async def test_g_passes(self):
        open("ran", "a").write("g")
"""

NAMES = ["test_a_passes", "test_b_fails", "test_c_raises", "test_d_hangs", "test_e_dies", "test_f_is_skipped"]


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "suite" / "tests"
    folder.mkdir(parents=True)
    (folder / "pulsar_test.py").write_text(SUITE)
    return folder


def run(tests: Path, names: list[str], seconds_max: float = 5.0) -> list[Outcome]:
    return FileRun(Path(sys.executable), tests, tests.parent, "pulsar_test").run(names, seconds_max)


def test_each_test_has_its_outcome_and_none_stops_the_others(tests: Path) -> None:
    outcomes = run(tests, [*NAMES, "test_g_passes", "test_h_is_not_there"])
    assert [each.outcome for each in outcomes] == [
        *("pass", "fail", "fail", "time-out", "fail", "skip", "pass", "missing")
    ]
    assert "one is not two" in outcomes[1].detail
    assert "no such thing" in outcomes[2].detail
    assert "ended with code 3" in outcomes[4].detail
    assert (tests / "ran").read_text() == "ag", "each ran once"


def test_only_what_is_asked_for_runs(tests: Path) -> None:
    assert [each.name for each in run(tests, ["test_g_passes"])] == ["test_g_passes"]
    assert (tests / "ran").read_text() == "g"


def test_a_suite_that_cannot_be_loaded_has_no_tests(tests: Path) -> None:
    (tests / "pulsar_test.py").write_text("import nothing_of_this_name")
    assert [each.outcome for each in run(tests, ["test_a_passes"])] == ["missing"]


def test_the_copy_names_our_addresses_and_the_suite_stays_as_it_is(tests: Path, tmp_path: Path) -> None:
    (tests / "pulsar_test.py").write_text("URL = 'pulsar://localhost:6650'")
    copy = copy_suite(tests, tmp_path, {"localhost:6650": "localhost:1234"}, "a token")
    assert (copy / "pulsar_test.py").read_text() == "URL = 'pulsar://localhost:1234'"
    assert (copy / ".test-token.txt").read_text() == "a token"
    assert "6650" in (tests / "pulsar_test.py").read_text()
    assert not (tests / ".test-token.txt").exists()


def test_the_suite_is_found_by_its_folder_or_the_one_above(tests: Path) -> None:
    assert find_tests(str(tests)) == find_tests(str(tests.parent)) == tests.resolve()
    assert find_tests("") is None
    assert find_tests("/nowhere") is None


def test_without_a_suite_it_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PULSAR_CLIENT_SUITE", raising=False)
    assert main([]) == 2
    assert "PULSAR_CLIENT_SUITE must name the suite's folder" in capsys.readouterr().err


def test_what_had_to_pass_and_did_not_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [Expected("f", "a", "server", ""), Expected("f", "b", "alone", ""), Expected("f", "c", "server", "")]
    outcomes = [
        Outcome("f", "a", "pass", 1),
        Outcome("f", "b", "fail", 1, "why\nbecause"),
        Outcome("f", "c", "time-out", 1),
    ]
    assert [each.name for each in report(chosen, outcomes)] == ["b", "c"]
    printed = capsys.readouterr().out
    assert "FAILED f b: fail: because" in printed
    assert "FAILED f c: time-out" in printed
    assert summary(chosen, outcomes) == "1 of 2 tests that need a server pass, 0 of 1 tests that need none pass"


def test_the_expected_list_is_that_of_the_suite() -> None:
    expected = read_expected()
    marks = [each.mark for each in expected]
    assert (len(expected), marks.count("server"), marks.count("alone"), marks.count("-")) == (177, 124, 48, 5)
    assert len({(each.file, each.name) for each in expected}) == 177
    assert all(each.reason for each in expected if each.mark == "-")
