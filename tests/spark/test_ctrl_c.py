"""Ctrl-C at a terminal, which every process of the job gets: one line, whatever the job was doing. What the job said
before are lines of its own, too."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server
from compat_tests.spark.job_process import QUICK_JAVA
from magnetar.spark.jobs.job_outcome import INTERRUPTED

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize("line", ["runs", pytest.param("starting Spark", marks=pytest.mark.long)])
def test_a_job_that_is_interrupted_before_its_first_batch_says_so_in_one_line(tmp_path: Path, line: str) -> None:
    with Server(tmp_path / "server", settings={"brokerDeleteInactiveTopicsEnabled": "false"}) as server:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(tmp_path / "client.log"))
        client = pulsar.Client(server.broker_url, logger=logger)
        client.create_producer("t").send(b"x")
        client.close()
        place = ["--service-url", server.broker_url, "--topic", "t", "--path", "p", "--checkpoint", "c"]
        command = [sys.executable, "-m", "magnetar", "spark", "lake_ingest", *place, "--spark-conf", QUICK_JAVA]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        ) as process:
            assert process.stderr is not None
            before = []
            while line not in (each := process.stderr.readline()):
                assert process.poll() is None
                before.append(each)
            os.killpg(process.pid, signal.SIGINT)
            printed, said = process.communicate(timeout=300)
    ours = [each for each in said.splitlines() if not _is_of_java(each)]
    assert (process.returncode, printed) == (1, "")
    assert all(each.startswith("lake_ingest: ") for each in before if not _is_of_java(each)), before
    assert ours == [f"magnetar spark lake_ingest: {INTERRUPTED}"]


def _is_of_java(line: str) -> bool:
    """Returns whether Java said a line while it started: the one that no setting keeps back, because Spark's launcher
    asks for a module that Java calls an incubator."""
    return "Using incubator modules" in line
