"""`magnetar spark` as far as it goes without Spark."""

import subprocess
import sys

import pytest

from server.main import main

WITHOUT_PYSPARK = (
    "import sys; sys.modules['pyspark'] = None; from server.main import main; sys.exit(main(sys.argv[1:]))"
)


def test_the_jobs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark"]) == 0
    printed = capsys.readouterr().out
    for job in ("lake_ingest", "window_agg", "snapshot_table", "replay", "audit"):
        assert job in printed


def test_an_unknown_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "lake"]) == 2
    assert "no job 'lake'; there are lake_ingest" in capsys.readouterr().err


def test_a_jobs_own_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["spark", "replay", "--help"])
    assert ended.value.code == 0
    assert "--dlq-of TOPIC:SUBSCRIPTION" in capsys.readouterr().out


def test_without_pyspark_the_list_is_shown_and_a_job_says_what_to_install() -> None:
    for arguments, code, text in (
        (["spark"], 0, "lake_ingest"),
        (["spark", "replay"], 1, "pip install 'magnetar[lake]'"),
    ):
        command = [sys.executable, "-c", WITHOUT_PYSPARK, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, text in done.stdout + done.stderr) == (code, True), done.stderr
