"""`make compat` runs the official Python client's suite against a fresh Magnetar and compares the outcome with what has
to pass.

The exit code is 0 when everything that has to pass passed, 1 when something did not, and 2 when the suite could not be
run.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compat_tests import redirects
from compat_tests.harness import Server, ServerFailedError, default_product
from compat_tests.official.cluster_limits import NOT_ON_A_CLUSTER
from compat_tests.official.runs import TEST_SECONDS_MAX, FileRun, Outcome, copy_suite
from compat_tests.official.suite_server import TOKEN_SUBJECT, prepare, settings, tokens, upstream_urls
from compat_tests.products import MagnetarCluster

SUITE_VARIABLE = "PULSAR_CLIENT_SUITE"
PYTHON_VARIABLE = "PULSAR_CLIENT_PYTHON"
EXPECTED = Path(__file__).with_name("expected.txt")
MUST_PASS = ("server", "alone")

EPILOG = f"""\
{SUITE_VARIABLE} names a checkout of apache/pulsar-client-python, tag v3.13.0-candidate-1 (or its folder `tests`).
{PYTHON_VARIABLE} names a Python that has `pulsar-client[all]==3.13.0` and `requests`; `make compat` makes one.
"""


@dataclass(frozen=True, slots=True)
class Expected:
    """One line of expected.txt."""

    file: str
    name: str
    mark: str
    reason: str


def read_expected() -> list[Expected]:
    lines = (line.split(maxsplit=3) for line in EXPECTED.read_text().splitlines() if line and line[0] != "#")
    return [Expected(*fields, *[""] * (4 - len(fields))) for fields in lines]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="make compat",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-k", default="", metavar="TEXT", help="only tests whose file and name contain this")
    parser.add_argument("--runs", type=int, default=1, help="how many times, each on a fresh server")
    parser.add_argument("--limit", type=float, default=TEST_SECONDS_MAX, metavar="S", help="seconds for one test")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the server's and the tests' logs there")
    arguments = parser.parse_args(argv)
    redirects.install()
    tests = find_tests(os.environ.get(SUITE_VARIABLE, ""))
    python = Path(os.environ.get(PYTHON_VARIABLE, sys.executable))
    if tests is None:
        print(f"{SUITE_VARIABLE} must name the suite's folder\n{EPILOG}", file=sys.stderr)
        return 2
    chosen = [each for each in read_expected() if arguments.k in f"{each.file} {each.name}" and each.mark != "-"]
    if not chosen:
        print(f"no test of the suite has '{arguments.k}' in its name", file=sys.stderr)
        return 2
    if isinstance(default_product(), MagnetarCluster):
        for (file, name), reason in NOT_ON_A_CLUSTER.items():
            print(f"left out: {file} {name}: {reason}")
        chosen = [each for each in chosen if (each.file, each.name) not in NOT_ON_A_CLUSTER]
    failed = 0
    for number in range(1, arguments.runs + 1):
        with tempfile.TemporaryDirectory(prefix="magnetar-compat-") as temporary:
            folder = arguments.keep / str(number) if arguments.keep else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            try:
                outcomes = run_once(tests, python, Path(temporary), folder, chosen, arguments.limit)
            except (RuntimeError, ServerFailedError) as error:
                print(f"the server could not be prepared: {error}", file=sys.stderr)
                return 2
            print(f"run {number} of {arguments.runs}: {summary(chosen, outcomes)} in {time.monotonic() - began:.0f} s")
            failed += len(report(chosen, outcomes))
    return 1 if failed else 0


def find_tests(suite: str) -> Path | None:
    for folder in (Path(suite) / "tests", Path(suite)):
        if suite and (folder / "pulsar_test.py").is_file():
            return folder.resolve()
    return None


def run_once(
    tests: Path, python: Path, temporary: Path, logs: Path, chosen: Sequence[Expected], limit: float
) -> list[Outcome]:
    """Runs the suite once, on a server of its own."""
    key = temporary / "secret.key"
    tokens("create-secret-key", "--output", str(key))
    superuser = tokens("create", "--secret-key", str(key), "--subject", "superUser")
    principal = tokens("create", "--secret-key", str(key), "--subject", TOKEN_SUBJECT)
    outcomes: list[Outcome] = []
    server = Server(logs, settings=settings(tests, key), data_dir=temporary / "data")
    with server:
        prepare(server, superuser)
        copy = copy_suite(tests, temporary, upstream_urls(server), principal)
        for file in dict.fromkeys(each.file for each in chosen):
            names = [each.name for each in chosen if each.file == file]
            outcomes += FileRun(python, copy, logs, file).run(names, limit)
    for line in server.error_lines():
        print(f"the server logged: {line}")
    return outcomes


def summary(chosen: Sequence[Expected], outcomes: Sequence[Outcome]) -> str:
    parts = []
    for mark, what in (("server", "that need a server"), ("alone", "that need none")):
        names = {(each.file, each.name) for each in chosen if each.mark == mark}
        passed = sum((each.file, each.name) in names and each.outcome == "pass" for each in outcomes)
        parts.append(f"{passed} of {len(names)} tests {what} pass")
    return ", ".join(parts)


def report(chosen: Sequence[Expected], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Prints the table and why tests failed. Returns the outcomes of tests that had to pass and did not."""
    marks = {(each.file, each.name): each.mark for each in chosen}
    width = max(len(each.name) for each in outcomes)
    bad = [each for each in outcomes if each.outcome != "pass" and marks[each.file, each.name] in MUST_PASS]
    for each in outcomes:
        print(f"  {each.file:<20} {each.name:<{width}} {each.outcome:<8} {each.seconds:6.1f} s")
    for each in bad:
        last = each.detail.strip().splitlines()[-1:] or ["no reason given"]
        print(f"FAILED {each.file} {each.name}: {each.outcome}: {last[0][:200]}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
