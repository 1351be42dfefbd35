"""`magnetar autorecovery` as a process of a test."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compat_tests.cluster.process import ClusterProcess, key_options
from compat_tests.products import interpreter, read_line

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType


class OurRecovery(ClusterProcess):
    """The process with its HTTP port. Use it as a context manager."""

    def __init__(self, folder: Path, zookeeper: str, *, program: Sequence[str] = ()) -> None:
        super().__init__("autorecovery", folder, program=program)
        self._zookeeper = zookeeper
        self.url = ""

    def command(self) -> list[str]:
        keys = {
            "metadataServiceUri": f"zk+hierarchical://{self._zookeeper}/ledgers",
            "advertisedAddress": "127.0.0.1",
            "allowLoopback": "true",
            "httpServerEnabled": "true",
            "httpServerHost": "127.0.0.1",
            "httpServerPort": "0",
        }
        return [*interpreter(), "-m", "magnetar", "autorecovery", "--ready-json", *key_options(keys)]

    def wait_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        assert process.stdout is not None
        line = read_line(process.stdout, deadline)
        if not line.endswith(b"\n"):
            return False
        self.url = f"http://127.0.0.1:{json.loads(line)['httpPort']}"
        return True

    def __enter__(self) -> "OurRecovery":
        return self.start()

    def __exit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()
