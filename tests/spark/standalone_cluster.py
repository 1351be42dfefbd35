"""A Spark standalone cluster of real processes: a master and workers, which start executors for each application."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
START_SECONDS = 120
LOOK_SECONDS = 0.1
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


class StandaloneCluster:
    """Runs in a `with` block. `python` is an environment with pyspark; its Spark is what runs, and its Python is what
    the executors find first on their PATH. Executors have `cores` cores each."""

    def __init__(self, folder: Path, python: Path, workers: int = 2, cores: int = 1) -> None:
        self._folder = folder
        self._python = python
        self._workers = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self.url = self._start("master", "Master", ["--host", "127.0.0.1", "--port", "0"], MASTER_URL)[1]
            for number in range(self._workers):
                place = ["--host", "127.0.0.1", "--work-dir", str(self._folder / f"worker-{number}")]
                size = ["--cores", str(self._cores), "--memory", "2g"]
                self._start(f"worker-{number}", "Worker", [*place, *size, self.url], re.compile(REGISTERED))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        for log in self._logs:
            log.close()

    def _start(self, name: str, kind: str, arguments: Sequence[str], ready: re.Pattern[str]) -> re.Match[str]:
        """Starts a process and waits until its log has the line `ready`. Raises AssertionError with the log when the
        process ends before, or takes too long."""
        path = self._folder / f"{name}.log"
        log = open(path, "wb")  # noqa: SIM115, closed at the end of the block
        self._logs.append(log)
        spark = spark_home(self._python)
        command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            stdout=log,
            stderr=log,
            env=environment(self._python) | {"SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA},
            start_new_session=True,
        )
        self._processes.append(process)
        deadline = time.monotonic() + START_SECONDS
        while not (found := ready.search(path.read_text(errors="replace"))):
            assert time.monotonic() < deadline, f"{name} takes too long: {path.read_text(errors='replace')}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                raise AssertionError(f"{name} ended: {path.read_text(errors='replace')}")
        return found


def spark_home(python: Path) -> Path:
    """Returns Spark's folder in an environment with pyspark."""
    (home,) = python.parents[1].glob("lib/python*/site-packages/pyspark")
    return home


def environment(python: Path) -> dict[str, str]:
    """Returns the environment variables of a shell in which the environment of `python` is active, and nothing of this
    project is on Python's path."""
    left_out = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    path = f"{python.parent}{os.pathsep}{variables['PATH']}"
    return {**variables, "PATH": path, "SPARK_HOME": str(spark_home(python)), "SPARK_LOCAL_IP": "127.0.0.1"}
