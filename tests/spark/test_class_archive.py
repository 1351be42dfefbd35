"""The archive of Java's classes with which jobs start sooner."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, Self

import pytest

from magnetar.server.commands.main import main
from magnetar.spark.jobs import job_session
from magnetar.spark.jobs.class_archive import archive_file, java_options
from magnetar.spark.jobs.job_arguments import parser
from magnetar.spark.jobs.job_session import JAVA_SETTING

USING_IT = """
import sys
from pyspark.sql import SparkSession
from magnetar.spark.jobs.class_archive import java_options
from magnetar.spark.jobs.job_session import JAVA_SETTING, QUICK_START

made = java_options()
assert made
options = " ".join([QUICK_START, *made, "-Xshare:on"])
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(JAVA_SETTING, options)
print(session.getOrCreate().range(7).count())
"""
"""With -Xshare:on Java does not start when it cannot use the archive."""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a file that stands for Java, and an empty cache folder whose name has a blank."""
    made = tmp_path / "java" / "bin" / "java"
    made.parent.mkdir(parents=True)
    made.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return made


def test_a_job_uses_the_archive_of_its_java_if_there_is_one(java: Path) -> None:
    assert java_options() == []
    archive = archive_file()
    assert archive is not None
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert java_options()[0] == f'"-XX:SharedArchiveFile={archive}"'
    os.utime(java, (1, 1))  # another Java was installed in the same place
    assert archive_file() != archive
    assert java_options() == []


class StoppedBuilder:
    """Takes the settings of a session, and stops where Java would start."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def appName(self, name: str) -> Self:  # noqa: N802, Spark's name
        return self

    def master(self, url: str) -> Self:
        return self

    def config(self, name: str, value: str) -> Self:
        self.settings[name] = value
        return self

    def getOrCreate(self) -> NoReturn:  # noqa: N802, Spark's name
        raise InterruptedError


@pytest.mark.parametrize("own", [[], ["--spark-conf", f"{JAVA_SETTING}=-Xint"]])
def test_a_job_starts_java_with_the_archive_unless_the_user_sets_javas_options(
    java: Path, own: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_file()
    assert archive is not None
    archive.parent.mkdir(parents=True)
    archive.touch()
    builder = StoppedBuilder()
    spark = SimpleNamespace(builder=builder, getActiveSession=lambda: None)
    monkeypatch.setattr(job_session, "SparkSession", spark)
    monkeypatch.setattr(job_session, "check_service", lambda *_, **__: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the job adds to it
    arguments = parser("audit", "", "").parse_args(["--service-url", "pulsar://127.0.0.1:1", *own])
    with pytest.raises(InterruptedError):
        job_session.session(arguments, "audit")
    expected = "-Xint" if own else f'{job_session.QUICK_START} "-XX:SharedArchiveFile={archive}" -Xlog:cds*=off'
    assert builder.settings[JAVA_SETTING] == expected


def test_without_java_no_archive_is_made(java: Path, capsys: pytest.CaptureFixture[str]) -> None:
    java.unlink()
    assert java_options() == []
    assert main(["spark", "--prepare"]) == 1
    assert capsys.readouterr().err.startswith("magnetar spark --prepare: no Java is found")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.long
def test_java_starts_with_the_archive_that_prepare_makes(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "a cache")}
    for command in (["-m", "magnetar", "spark", "--prepare"], ["-c", USING_IT]):
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["7"]
    assert [each.suffix for each in (tmp_path / "a cache" / "magnetar").iterdir()] == [".jsa"]
