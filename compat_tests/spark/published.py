"""The published Spark Pulsar connector, unmodified, in an environment of its own (docs/spark/CONNECTORS.md).

That is connector 2.12-3.1.1.4 with pyspark 3.4.4. A newer connector is taken from a folder that an environment variable
names, with the pyspark version that another variable names; without these, its tests are skipped and say so.
"""

import json
import os
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from compat_tests import maven_jars
from compat_tests.python_env import python_with
from compat_tests.unavailable import unavailable

PYSPARK = "3.4.4"
JOBS_NEED = (
    "cramjam<3",
    "fastavro<2",
    "google-crc32c<2",
    "numpy<2.5",
    "orjson<4",
    "pandas<3",
    "protobuf<8",
    "pyarrow<27",
)
"""What `magnetar.spark.jobs` imports besides pyspark, in versions that were seen to work with the old pyspark."""
CONNECTOR = ("io.streamnative.connectors", "pulsar-spark-connector_2.12", "3.1.1.4")
NEWER_JARS_VARIABLE = "MAGNETAR_SPARK_CONNECTOR_JARS"
NEWER_PYSPARK_VARIABLE = "MAGNETAR_SPARK_CONNECTOR_PYSPARK"
ROOT = Path(__file__).resolve().parents[2]
"""The folder that the jobs are imported from, by Spark's workers too."""
DRIVER = Path(__file__).with_name("driver.py")


def connector_jar() -> Path:
    maven_jars.need_java()
    folder = Path(maven_jars.class_path("pulsar-spark-connector", [CONNECTOR])).parent
    return folder / f"{CONNECTOR[1]}-{CONNECTOR[2]}.jar"


def environment() -> Path:
    """Returns the interpreter of an environment with the old pyspark and what this project's jobs need besides."""
    return python_with(f"pyspark-{PYSPARK}", [f"pyspark=={PYSPARK}", *JOBS_NEED], "3.11")


def newer() -> tuple[Path, Path]:
    """Returns the interpreter and the jar of the newer connector that the environment names. Skips the test when it
    names none."""
    folder, version = os.environ.get(NEWER_JARS_VARIABLE), os.environ.get(NEWER_PYSPARK_VARIABLE, "4.1.1")
    if not folder:
        pytest.skip(f"no newer connector: {NEWER_JARS_VARIABLE} names no folder with its jar")
    jars = sorted(Path(folder).glob("pulsar-spark-connector*.jar"))
    assert jars, f"{NEWER_JARS_VARIABLE}: no pulsar-spark-connector*.jar in {folder}"
    return python_with(f"pyspark-{version}", [f"pyspark=={version}", *JOBS_NEED]), jars[-1]


class Driver:
    """A process with a Spark session. `run` sends it code, and returns what the code leaves in `result`."""

    def __init__(
        self,
        folder: Path,
        python: Path | None = None,
        jar: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are the session's settings, instead of those that make short tests fast."""
        python = python or environment()
        self._log = open(folder / "spark.log", "ab")  # noqa: SIM115, closed by close()
        self.process = subprocess.Popen(
            [python, DRIVER, jar or connector_jar(), *(f"{name}={value}" for name, value in (settings or {}).items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        if self._answer() != "ready":
            unavailable("Spark did not start")

    def run(self, code: str) -> Any:
        """Runs code in the session. Raises AssertionError with the session's traceback when it fails."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the Spark process ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def kill(self) -> None:
        """Sends SIGKILL to driver and JVM at once."""
        os.killpg(self.process.pid, 9)
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
