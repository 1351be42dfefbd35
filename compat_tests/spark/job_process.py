"""A Spark job as a process of its own, whose driver, JVM and workers can be killed at once."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

QUICK_JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SECONDS = 300


class JobProcess:
    """Runs `magnetar spark JOB …` with JSON progress. When the block ends, the whole process group is ended."""

    def __init__(self, job: str, arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        command = [sys.executable, "-m", "magnetar", "spark", job, *arguments]
        self._process = subprocess.Popen(
            [*command, "--progress", "json", "--master", "local[2]", "--spark-conf", QUICK_JAVA],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
        self._said = ""

    def until_batch(self, number: int) -> None:
        """Waits until the job says that it finished batch `number` or a later one. Raises AssertionError when it ends
        before."""
        said = self._until(lambda record: int(record.get("batch", -1)) >= number)
        assert said, f"the job ended without batch {number}: {self._said}"

    def until_working(self) -> bool:
        """Waits until Spark runs and the job begins to work. Returns False when it ends before."""
        return self._until(lambda record: record.get("state") == "running" or "batch" in record)

    def _until(self, is_it: Callable[[dict[str, Any]], bool]) -> bool:
        assert self._process.stderr is not None
        deadline = time.monotonic() + SECONDS
        while True:
            line = self._process.stderr.readline()
            self._said += line
            if not line:
                return False
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {self._said}"
            if line.startswith("{") and is_it(json.loads(line)):
                return True

    def for_a_while(self, chance: random.Random, seconds: float) -> bool:
        """Lets the job run for a random part of `seconds`. Returns whether it is still running."""
        try:
            self._process.wait(chance.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        """Sends SIGKILL to all of its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def result(self) -> dict[str, Any]:
        """Waits for the end, and returns the outcome that the job printed. Raises AssertionError for any other exit
        code than 0."""
        out, err = self._process.communicate(timeout=SECONDS)
        assert self._process.returncode == 0, f"{self._said}{err}\n{out}"
        found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
