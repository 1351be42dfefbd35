"""HDFS in a process of its own: a namenode and a datanode of Apache Hadoop's, from Maven Central."""

import contextlib
import json
import subprocess
import tempfile
import time
from pathlib import Path

from hdfs_native.fsspec import HdfsFileSystem
from pyarrow import fs

from compat_tests.maven_jars import class_path, need_java
from compat_tests.spark.store_server import StoreServer

HADOOP = [("org.apache.hadoop", "hadoop-client-minicluster", "3.4.2")]
PROGRAM = "org.apache.hadoop.test.MiniDFSClusterManager"
START_SECONDS = 120
LOOK_SECONDS = 0.2


class HdfsServer(StoreServer):
    """The cluster, which believes whatever users say about themselves."""

    root = "/lake"
    variables = ("HADOOP_",)

    def start(self) -> None:
        need_java()
        jars = class_path("hadoop-minicluster", HADOOP)
        self._folder = tempfile.TemporaryDirectory(prefix="hdfs-")
        details = Path(self._folder.name) / "details.json"
        command = ["java", "-Xmx512m", "-cp", jars, PROGRAM, "-format", "-writeDetails", str(details)]
        self._process = subprocess.Popen(
            command, cwd=self._folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        port = self._port(details)
        self._netloc = f"127.0.0.1:{port}"
        # fsspec clears its cache in a process that was forked, where the end of an instance would wait for ever
        own = HdfsFileSystem("127.0.0.1", port, skip_instance_cache=True)
        self.files = fs.PyFileSystem(fs.FSSpecHandler(own))

    def _port(self, details: Path) -> int:
        """Waits until the cluster has written where it listens. Raises AssertionError when it does not."""
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                return int(json.loads(details.read_text())["namenode_port"])
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_SECONDS)
        self.end()
        raise AssertionError("HDFS does not start")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def url(self, name: str) -> str:
        return f"hdfs://{self._netloc}{self.root}/{name}"

    @property
    def login(self) -> dict[str, str]:
        return {}

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def delta_options(self) -> dict[str, str]:
        return {}
