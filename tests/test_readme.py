"""The example in the README runs as it stands against a real server."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.harness import Server

README = Path(__file__).resolve().parent.parent / "README.md"


def example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.mark.process
def test_the_example_prints_its_ten_messages(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        source = example().replace("pulsar://127.0.0.1:6650", server.broker_url)
        result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    # The client's log lines go to stdout too.
    printed = re.findall(r"^\(\d+,\d+,-1,-1\) (hello \d)$", result.stdout, re.MULTILINE)
    assert printed == [f"hello {number}" for number in range(10)]


def test_the_example_stays_short() -> None:
    assert len(example().splitlines()) <= 20
