"""The data source from an installed wheel: it is found by its own name, on executors too, beside a user's own package
`spark`."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulsar
import pyarrow.parquet as pq
import pytest

from compat_tests.harness import Server
from compat_tests.python_env import python_with

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from magnetar.spark import PulsarDataSource, register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
place = {"service.url": sys.argv[1], "topic": "installed"}
spark.range(10).selectExpr("string(id) as value").write.format("pulsar").options(**place).mode("append").save()
values = [row.value for row in spark.read.format("pulsar").options(**place).load().collect()]
assert sorted(values) == [str(number) for number in range(10)], values
assert PulsarDataSource.__module__ == "magnetar.spark.source.data_source"
"""


QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacks the wheel as pip would, and returns the folder."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    environment = {**os.environ, "MAGNETAR_COMPILED": "0"}
    subprocess.run(command, check=True, capture_output=True, timeout=120, env=environment)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def produce(server: Server, folder: Path) -> None:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
    client = pulsar.Client(server.broker_url, logger=logger)
    producer = client.create_producer("submitted")
    for number in range(10):
        producer.send(b"%d" % number)
    client.close()


def test_the_data_source_and_a_submitted_job_work_from_a_wheel(site: Path, tmp_path: Path) -> None:
    """A user's own package `spark` is there, too. The program's environment is not active, so its workers have the
    packages only if they run the program's Python. Both Sparks run at once, because each takes a while to start."""
    work = tmp_path / "work"
    (work / "spark").mkdir(parents=True)
    (work / "spark" / "__init__.py").write_text("raise ImportError('the user\\'s own spark package')\n")
    (work / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(site), "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": QUICK_JAVA}
    environment.pop("SPARK_HOME", None)
    path = run([sys.executable, "-m", "magnetar", "spark", "--path", "lake_ingest"], work, environment).strip()
    assert Path(path) == site / "magnetar" / "spark" / "jobs" / "lake" / "lake_ingest.py"
    with Server(tmp_path / "server") as server, ThreadPoolExecutor() as both:
        python = python_with("magnetar-spark", requirements(), linked=("pyspark", "py4j"))
        produce(server, tmp_path)
        program = both.submit(run, [str(python), "program.py", server.broker_url], work, dict(environment))
        environment |= {"PYSPARK_PYTHON": str(python), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        options = ["--service-url", server.broker_url, "--topic", "submitted", "--path", "table", "--checkpoint", "ck"]
        submit = [str(spark_submit(python)), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
        said = run([*submit, path, *options, "--progress", "json"], work, environment)
        program.result()
    outcome = json.loads(said.strip().splitlines()[-1])
    assert (outcome["written"], outcome["problems"]) == (10, [])
    values = pq.read_table(work / "table").column("value").to_pylist()
    assert sorted(values) == [b"%d" % number for number in range(10)]


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Returns what a program prints. Raises AssertionError with its output when it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def spark_submit(python: Path) -> Path:
    (program,) = python.parents[1].glob("lib/python*/site-packages/pyspark/bin/spark-submit")
    return program


def requirements() -> list[str]:
    """Returns what `pip install magnetar[spark]` installs for the data source, but for pyspark, which is linked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["spark"]
    needed = {"cramjam", "fastavro", "orjson", "protobuf", "google-crc32c"}
    core = [each for each in project["dependencies"] if re.split(r"[<>=;]", each)[0] in needed]
    return [*core, *(each for each in extra if not each.startswith("pyspark"))]
