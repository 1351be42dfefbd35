"""The example in docs/BOOKKEEPER_CLIENT.md runs as it stands, on our bookies and on Apache's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.bookkeeper.apache_bookkeeper import running_cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "BOOKKEEPER_CLIENT.md"


@pytest.mark.process
@pytest.mark.slow
def test_the_example_follows_a_ledger_over_our_bookies_and_apaches(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with running_cluster(tmp_path) as cluster:
        cluster.start_bookie("one")
        cluster.start_bookie("two")
        cluster.start_apache_bookie("apache")
        environment = {**os.environ, "BOOKKEEPER": f"zk+hierarchical://{cluster.zookeeper}/ledgers"}
        result = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("seen")] == [f"seen entry {number}" for number in range(5)]
    assert [line for line in lines if line.startswith("confirmed")] == [f"confirmed {number}" for number in range(5)]
    assert lines[-1] == "5 entries, 35 bytes"
