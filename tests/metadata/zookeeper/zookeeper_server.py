"""Real ZooKeeper processes for tests: one server, or an ensemble, on ports of this machine.

The jars come from Maven Central by Apache Maven, once a user, into a cache folder outside the project. Where Java or
the jars cannot be had, tests skip with the reason on a user's machine and fail in CI (CI=true).
"""

import asyncio
import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests import maven_jars
from tests.waiting import moment

VERSION = "3.9.3"
START_SECONDS = 120.0
ANSWER_SECONDS = 15.0
TICK_MS = 500
"""Half a second lets a session be as short as one second, and lets an ensemble find a dead leader soon."""

DEPENDENCIES = (
    ("org.apache.zookeeper", "zookeeper", VERSION),
    # ZooKeeper's pom does not name these; the one who runs the server has to add them.
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "1.7.30"),
)


def jars() -> str:
    """The class path of a server; skips the test (or fails it, in CI) when it cannot be had."""
    maven_jars.need_java()
    return maven_jars.class_path("zookeeper", DEPENDENCIES)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class ZooKeeperServer:
    """One process. It can be killed, paused and started again on the same data."""

    def __init__(
        self, folder: Path, port: int, extra: str = "", my_id: int | None = None, java: Sequence[str] = ()
    ) -> None:
        """`extra` are lines of zoo.cfg, `java` options of the virtual machine."""
        self.folder = folder
        self._java = java
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True)
        if my_id is not None:
            (data / "myid").write_text(str(my_id))
        (folder / "zoo.cfg").write_text(
            f"tickTime={TICK_MS}\ndataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            f"admin.enableServer=false\nmaxClientCnxns=0\nminSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout=60000\n"
            f"4lw.commands.whitelist=srvr\n{extra}"
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        assert self._process is None
        command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"]
        command += [
            *self._java,
            "-cp",
            jars(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    async def ready(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            while await self.mode() is None:
                assert self._process is not None
                assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
                await moment()

    async def mode(self) -> str | None:
        """Returns standalone, leader or follower; None while the server does not serve."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    writer.write(b"srvr")
                    answer = (await reader.read()).decode()
                finally:
                    writer.close()
        except OSError:  # as is TimeoutError
            return None
        for line in answer.splitlines():
            if line.startswith("Mode:"):
                return line.split()[1]
        return None

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def running(folder: Path, java: Sequence[str] = ()) -> Iterator[ZooKeeperServer]:
    """A single server, for fixtures."""
    server = ZooKeeperServer(folder / "zookeeper", free_ports(1)[0], java=java)
    server.launch()
    try:
        asyncio.run(server.ready())
        yield server
    finally:
        server.kill()


def ensemble(folder: Path, size: int = 3) -> list[ZooKeeperServer]:
    ports = free_ports(3 * size)
    members = "".join(
        f"server.{number}=127.0.0.1:{ports[size + number - 1]}:{ports[2 * size + number - 1]}\n"
        for number in range(1, size + 1)
    )
    extra = f"initLimit=20\nsyncLimit=10\n{members}"
    return [ZooKeeperServer(folder / str(n), ports[n - 1], extra, my_id=n) for n in range(1, size + 1)]
