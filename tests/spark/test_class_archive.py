"""The archive of Java's classes with which jobs start sooner."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.server.commands.main import main
from magnetar.spark.jobs.class_archive import archive_file, java_options

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


def test_without_java_no_archive_is_made(java: Path, capsys: pytest.CaptureFixture[str]) -> None:
    java.unlink()
    assert java_options() == []
    assert main(["spark", "--prepare"]) == 1
    assert capsys.readouterr().err.startswith("magnetar spark --prepare: no Java is found")


@pytest.mark.process
@pytest.mark.slow
def test_java_starts_with_the_archive_that_prepare_makes(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "a cache")}
    for command in (["-m", "magnetar", "spark", "--prepare"], ["-c", USING_IT]):
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["7"]
    assert [each.suffix for each in (tmp_path / "a cache" / "magnetar").iterdir()] == [".jsa"]
