"""The log of a job's Java: its settings are the job's own, unless the user has settings for it."""

import os
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from pyspark.sql import SparkSession

from magnetar.spark.jobs.job_session import LOG_VARIABLE, make_quiet

VARIABLES = (LOG_VARIABLE, "SPARK_HOME", "SPARK_CONF_DIR")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what the job sets is taken back, too
        monkeypatch.delenv(name)


def test_java_finds_the_jobs_settings_of_its_log() -> None:
    make_quiet(SparkSession.builder)
    settings = Path(url2pathname(urlsplit(os.environ[LOG_VARIABLE]).path))
    assert "rootLogger.level = fatal" in settings.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", VARIABLES)
def test_settings_of_the_user_are_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "file:///users/own")
    make_quiet(SparkSession.builder)
    assert os.environ.get(LOG_VARIABLE) == ("file:///users/own" if name == LOG_VARIABLE else None)
