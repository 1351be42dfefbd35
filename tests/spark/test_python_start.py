"""The Python processes of Spark's Java import pyspark from their environment, and what else they do at their start they
do as before."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import cast

import pytest
from pyspark import SparkContext

from magnetar.spark.jobs import job_session
from magnetar.spark.shipping import registration
from magnetar.spark.shipping.cluster_rules import PYTHON_VARIABLE

pytestmark = pytest.mark.process

START = Path(registration.__file__).parent / "python_start"


def printed(code: str, *path: Path) -> str:
    """Returns what a Python process prints that has these entries first on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.strip()


@pytest.fixture
def zips(tmp_path: Path) -> list[Path]:
    """Makes the two zips that Spark brings along. Pyspark's also has a module that the environment lacks."""
    made = [tmp_path / "pyspark.zip", tmp_path / "py4j-0.10.9.9-src.zip"]
    for path in made:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{path.name[:4].rstrip('-')}_of_zip.py", "")
            archive.writestr("pyspark/__init__.py", "")
            archive.writestr("py4j/__init__.py", "")
    return made


@pytest.mark.parametrize("module", ["pyspark", "py4j"])
def test_pyspark_and_py4j_come_from_the_environment(zips: list[Path], module: str) -> None:
    code = f"import importlib.util; print(importlib.util.find_spec({module!r}).origin)"
    assert "zip" in printed(code, *zips)
    assert "zip" not in printed(code, *zips, START)


def test_what_the_environment_lacks_still_comes_from_the_zip(zips: list[Path]) -> None:
    assert "pyspark.zip" in printed("import pysp_of_zip; print(pysp_of_zip.__file__)", *zips, START)


def test_other_entries_of_the_path_keep_their_order(zips: list[Path], tmp_path: Path) -> None:
    others = [tmp_path / "not_pyspark.zip", tmp_path / "b", tmp_path / "a"]
    shown = printed("import sys; print(*sys.path, sep='\\n')", others[0], *zips, START, *others[1:]).splitlines()
    kept = [entry for entry in shown if entry in map(str, [*others, *zips])]
    assert kept == [str(each) for each in [*others, *zips]]


def test_the_environments_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hidden')")
    assert printed("print('main')", START, tmp_path).split() == ["hidden", "main"]


@pytest.mark.parametrize(
    ("python", "home", "is_added"),
    [(sys.executable, None, True), ("/usr/bin/another", None, False), (sys.executable, "/opt/spark", False)],
)
def test_a_job_adds_the_folder_where_zip_and_environment_are_of_one_version(
    monkeypatch: pytest.MonkeyPatch, python: str, home: str | None, is_added: bool
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, python)
    monkeypatch.setenv("PYTHONPATH", "/users/own")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("SPARK_HOME", home)
    for _ in range(2):
        job_session.start_python_sooner()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == ["/users/own", *([str(START)] if is_added else [])]


@pytest.mark.parametrize(("master", "is_added"), [("local[2]", True), ("spark://127.0.0.1:7077", False)])
def test_register_adds_the_folder_on_one_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, is_added: bool
) -> None:
    """A cluster's executors may have neither the folder nor this pyspark."""
    for variable in (PYTHON_VARIABLE, "SPARK_HOME"):
        monkeypatch.delenv(variable, raising=False)
    context = Context(master, tmp_path)
    registration.prepare(cast(SparkContext, context))
    assert context.environment.get("PYTHONPATH", "") == os.pathsep.join(["/users/own", *([str(START)] * is_added)])


class Context:
    """What `register` uses of a SparkContext."""

    defaultParallelism = 2  # noqa: N815, Spark's name

    def __init__(self, master: str, folder: Path) -> None:
        self.master = master
        self.environment = {"PYTHONPATH": "/users/own"}
        self.pythonExec = "python3"
        self._python_includes: list[str] = []
        self._temp_dir = str(folder)

    def addPyFile(self, path: str) -> None:  # noqa: N802, Spark's name
        assert Path(path).exists()
