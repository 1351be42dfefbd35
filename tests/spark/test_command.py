"""`magnetar spark` as far as it works without Spark."""

import os
import socket
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from magnetar.server.commands.main import main
from magnetar.spark.jobs.main import JOBS

WITHOUT_PYSPARK = """
import sys
sys.modules['pyspark'] = None
from magnetar.server.commands.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_jobs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark"]) == 0
    printed = capsys.readouterr().out
    for job in ("lake_ingest", "window_agg", "snapshot_table", "replay", "audit"):
        assert job in printed


def test_the_help_lists_the_jobs_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["spark", "--help"])
    assert ended.value.code == 0
    listed = capsys.readouterr().out.split("\njobs:\n")[1].split("\n\n")[0]
    assert [line.split(None, 1) for line in listed.splitlines()] == [[name, job.summary] for name, job in JOBS.items()]


@pytest.mark.parametrize(
    "words", [["--prepare", "replay"], ["--bundle", "x.zip", "replay"], ["--bundle", "x", "--prepare"]]
)
def test_only_one_thing_is_done_at_a_time(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["spark", *words])
    assert ended.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_an_unknown_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "lake"]) == 2
    assert "no job 'lake'; there are lake_ingest" in capsys.readouterr().err


def test_a_jobs_own_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["spark", "replay", "--help"])
    assert ended.value.code == 0
    assert "--dlq-of TOPIC:SUBSCRIPTION" in capsys.readouterr().out


@pytest.mark.process
def test_without_pyspark_the_list_is_shown_and_a_job_says_what_to_install() -> None:
    for arguments, code, text in (
        (["spark"], 0, "lake_ingest"),
        (["spark", "replay"], 1, "pip install 'magnetar[lake]'"),
    ):
        command = [sys.executable, "-c", WITHOUT_PYSPARK, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        assert (done.returncode, text in done.stdout + done.stderr) == (code, True), done.stderr


def test_an_admin_interface_that_does_not_answer_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert main(["spark", "audit", "--service-url", "pulsar://127.0.0.1:1", "--admin-url", url]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "<urlopen error" not in line
    assert line.startswith(f"magnetar spark audit: {url} does not answer: ")


@pytest.mark.process
def test_a_machine_without_java_is_told_what_is_missing(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        Admin(server).put("persistent/public/default/t")
        place = ["--service-url", server.broker_url, "--topic", "t", "--path", "p", "--checkpoint", "c"]
        environment = {"PATH": os.defpath, "JAVA_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "magnetar", "spark", "lake_ingest", *place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "magnetar spark lake_ingest: Spark could not start Java: is Java 17 or newer installed, or JAVA_HOME wrong?",
    )


def test_the_file_of_a_job_is_told_for_spark_submit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "--path", "window_agg"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "window_agg.py"
    assert path.is_file()
    assert main(["spark", "--path", "nothing"]) == 2
    assert "no job 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["replay", "audit"])
def test_jobs_that_read_with_their_own_protocol_code_refuse_the_connector(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["spark", job, "--source", "connector"])
    assert ended.value.code == 2
    assert f"--source connector: {job} speaks to the service itself and needs no connector" in capsys.readouterr().err


def test_every_job_has_a_file_and_no_module_beside_it_hides_a_library(capsys: pytest.CaptureFixture[str]) -> None:
    """spark-submit puts the folder of a job's file before all libraries on Python's path."""
    libraries = {*sys.stdlib_module_names, *packages_distributions()}
    for job in JOBS:
        assert main(["spark", "--path", job]) == 0
        path = Path(capsys.readouterr().out.strip())
        assert path.name == f"{job}.py"
        assert not libraries.intersection(module.stem for module in path.parent.glob("*.py"))
