"""`make kazoo` runs kazoo's own test-suite, from the source distribution on PyPI, against `magnetar zookeeper`.

KAZOO_PYTHON names a Python that has kazoo and what its tests need; `make kazoo` makes one. The exit code is 0 when the
tests that fail are just those that expected.txt explains.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compat_tests.products import interpreter

VERSION = "2.11.0"
HERE = Path(__file__).parent
PROTOCOL_VERSION = "3.9.3"
TEST_SECONDS_MAX = 90
_FAILED = re.compile(r"^(?:FAILED|ERROR) kazoo/tests/(\S+)", re.MULTILINE)


def expected() -> dict[str, str]:
    """Returns the tests that fail, with the reason of each."""
    lines = [line for line in (HERE / "expected.txt").read_text().splitlines() if line[:1] != "#"]
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}


def fetch(python: str, folder: Path) -> Path:
    """Downloads the source distribution and unpacks it; returns its folder."""
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", f"kazoo=={VERSION}"]
    subprocess.run([*command, "--dest", str(folder)], check=True)
    with tarfile.open(folder / f"kazoo-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"kazoo-{VERSION}"


def run(python: str, suite: Path, data: Path, arguments: Sequence[str]) -> str:
    """Runs the suite; returns what pytest printed."""
    environment = os.environ | {
        "ZOOKEEPER_VERSION": PROTOCOL_VERSION,
        "MAGNETAR": shlex.join([*interpreter(), "-m", "magnetar"]),
        "MAGNETAR_DATA": str(data),
        "PYTHONPATH": f"{suite}:{HERE}",
    }
    command = [python, "-m", "pytest", "-p", "magnetar_cluster", "-p", "no:cacheprovider", "-q", "--color=no"]
    command += ["-o", "log_cli=false", f"--timeout={TEST_SECONDS_MAX}", "-rfE", "kazoo/tests", *arguments]
    done = subprocess.run(command, cwd=suite, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make kazoo", description=__doc__)
    parser.add_argument("-k", default="", metavar="TEXT", help="only tests whose name matches, as in pytest")
    chosen = parser.parse_args(argv).k
    python = os.environ.get("KAZOO_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="magnetar-kazoo-") as temporary:
        folder = Path(temporary)
        output = run(python, fetch(python, folder), folder / "data", ["-k", chosen] if chosen else [])
    known = expected()
    failed = set(_FAILED.findall(output))
    print(output[-600:])
    for name in sorted(failed):
        print(f"{'explained' if name in known else 'NOT EXPLAINED'}: {name}: {known.get(name, '')}")
    if not re.search(r"\d+ passed", output):
        print(output[-5000:], file=sys.stderr)
        return 2
    return 1 if failed - known.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
