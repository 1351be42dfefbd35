"""The data source from an installed wheel: by its own name, on executors too, beside a user's own `spark` package."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from compat_tests.harness import Server
from compat_tests.python_env import python_with

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from magnetar.spark import PulsarDataSource

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(PulsarDataSource)
place = {"service.url": sys.argv[1], "topic": "installed"}
spark.range(10).selectExpr("string(id) as value").write.format("pulsar").options(**place).mode("append").save()
values = [row.value for row in spark.read.format("pulsar").options(**place).load().collect()]
assert sorted(values) == [str(number) for number in range(10)], values
assert PulsarDataSource.__module__ == "magnetar.spark.source.data_source"
"""


def test_the_data_source_works_from_a_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    work = tmp_path / "work"
    (work / "spark").mkdir(parents=True)
    (work / "spark" / "__init__.py").write_text("raise ImportError('the user\\'s own spark package')\n")
    (work / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(site), "SPARK_LOCAL_IP": "127.0.0.1"}
    with Server(tmp_path / "server") as server:
        python = python_with("magnetar-spark", requirements())
        environment["PYSPARK_PYTHON"] = str(python)
        done = subprocess.run(
            [python, "program.py", server.broker_url],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-3000:]


def requirements() -> list[str]:
    """What `pip install magnetar[spark]` brings to the data source."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["spark"]
    needed = {"orjson", "protobuf", "google-crc32c"}
    core = [each for each in project["dependencies"] if re.split(r"[<>=;]", each)[0] in needed]
    return [*core, *(("pyspark==4.1.1" if each.startswith("pyspark") else each) for each in extra)]
