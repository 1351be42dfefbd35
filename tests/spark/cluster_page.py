"""Follows docs/spark/CLUSTERS.md as a reader with a cluster would.

`magnetar` and `python` are those of an installation; `spark-submit` is that of the cluster, whose Python lacks this
project.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.spark.pages import Block, check_prints, commands_of
from tests.spark.standalone_cluster import environment, spark_home

COMMAND_SECONDS = 600
SERVER_SECONDS = 180
LOOK_SECONDS = 0.2
SERVER_STARTED = re.compile(r"Spark Connect server started at: \S*(:\d+)")
SERVER_PORT = ":15002"
"""What the page has for the port of Spark Connect; in the test any port that is free."""
NOT_RUN = ("git", "python3", "pip", "magnetar standalone", "spark-class")
QUICK = {
    "spark.ui.enabled": "false",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class ClusterReader:
    """Runs blocks in `folder`. `installed` is a Python that has the project, or has it with the PYTHONPATH `project`;
    `bare` is the cluster's. `places` maps the addresses on the page to those of the test. Server processes of the page
    live as long as `servers`."""

    def __init__(
        self,
        folder: Path,
        installed: Path,
        bare: Path,
        places: Mapping[str, str],
        servers: ExitStack,
        project: str = "",
    ) -> None:
        self._folder = folder
        self._installed = installed
        self._bare = bare
        self._places = dict(places)
        self._servers = servers
        self._project = project
        settings = folder / "conf"
        settings.mkdir()
        (settings / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in QUICK.items()))

    def follow(self, block: Block) -> None:
        """Runs one block, and checks that it prints what the page promises. Raises AssertionError."""
        text = block.text
        for documented, own in self._places.items():
            text = text.replace(documented, own)
        if block.file:
            (self._folder / block.file).write_text(text)
        elif block.kind == "sh":
            check_prints(block, "".join(self._run(command) for command in commands_of(text)))

    def _run(self, command: str) -> str:
        if command.startswith(NOT_RUN):
            return ""
        words = shlex.split(command, comments=True)
        of_cluster = words[0] == "spark-submit"
        python = self._bare if of_cluster else self._installed
        variables = environment(python) | {"SPARK_CONF_DIR": str(self._folder / "conf")}
        variables |= {name: str(self._folder) for name in ("SPARK_LOG_DIR", "SPARK_PID_DIR")}
        if self._project and not of_cluster:
            variables["PYTHONPATH"] = self._project
        variables["PATH"] = f"{spark_home(python) / 'bin'}{os.pathsep}{variables['PATH']}"
        bin_folder = shlex.quote(str(self._installed.parent))
        command = command.replace("$(magnetar", f"$({bin_folder}/magnetar")
        if words[-1] == "&":
            self._serve(command.rstrip("&"), variables)
            return ""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout + done.stderr

    def _serve(self, command: str, variables: Mapping[str, str]) -> None:
        """Starts a server of Spark Connect, and waits until it listens."""
        log = self._folder / "server.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command,
                shell=True,
                cwd=self._folder,
                env=variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._servers.callback(process.wait)
        self._servers.callback(os.killpg, process.pid, signal.SIGKILL)
        deadline = time.monotonic() + SERVER_SECONDS
        while not (started := SERVER_STARTED.search(log.read_text(errors="replace"))):
            assert time.monotonic() < deadline, f"{command} takes too long: {log.read_text(errors='replace')}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                raise AssertionError(f"{command} ended: {log.read_text(errors='replace')}")
        self._places[SERVER_PORT] = started[1]
