"""`magnetar bk journal` reads the journal that Apache's bookie wrote."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat_tests.bookkeeper.apache_bookkeeper import running_cluster
from compat_tests.products import interpreter


def rows(*words: str) -> list[Any]:
    command = [*interpreter(), "-m", "magnetar", "bk", "journal", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.process
@pytest.mark.slow
def test_the_journal_of_apache_s_bookie_is_read(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.start_apache_bookie("apache")
        quorums = ("-ensemble", "1", "-writeQuorum", "1", "-ackQuorum", "1")
        assert cluster.shell("simpletest", *quorums, "-numEntries", "25").returncode == 0
        found = rows("--journal-dir", str(tmp_path / "apache" / "journal"))
        entries = [entry for row in found for entry in row["entries"]]
        (ledger_id,) = {entry["ledgerId"] for entry in entries}
        assert sorted(entry["entryId"] for entry in entries) == list(range(25))
        kinds = {(control["ledgerId"], control["kind"]) for row in found for control in row["controls"]}
        assert (ledger_id, "ledger key") in kinds
        one = rows("--journal-dir", str(tmp_path / "apache" / "journal"), "-l", str(ledger_id + 1))
        assert one == []
