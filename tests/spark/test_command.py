"""`magnetar spark` as far as it goes without Spark."""

import os
import socket
import subprocess
import sys
from pathlib import Path

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


def test_an_admin_interface_that_does_not_answer_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["spark", "audit", "--service-url", "pulsar://127.0.0.1:1", "--admin-url", url]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"magnetar spark audit: {url} does not answer: ")


def test_a_machine_without_java_is_told_what_is_missing(tmp_path: Path) -> None:
    place = ["--service-url", "pulsar://127.0.0.1:1", "--topic", "t", "--path", "p", "--checkpoint", "c"]
    environment = {"PATH": os.defpath, "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "magnetar", "spark", "lake_ingest", *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "magnetar spark lake_ingest: Spark could not start Java: is Java 17 or newer installed, or JAVA_HOME wrong?",
    )
