"""The process of a service that plays an object store on this machine."""

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

START_SECONDS = 60
LOOK_SECONDS = 0.1
ATTEMPTS = 5


class StoreProcess:
    """A service that listens on a port of its own. `endpoint` is its URL."""

    def __init__(self, command: Sequence[str | Path], path: str) -> None:
        """Starts the command, whose words may contain `{port}`, and waits until the service answers at the path,
        whatever it answers. Raises AssertionError when it does not come up."""
        for _ in range(ATTEMPTS):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            words = [str(word).replace("{port}", str(port)) for word in command]
            self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.endpoint = f"http://127.0.0.1:{port}"
            if self._answers(path):
                return
        raise AssertionError(f"{command[0]} does not start")

    def _answers(self, path: str) -> bool:
        """Waits until the service answers. Returns False when it ended instead, because another took its port."""
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.endpoint}{path}", timeout=START_SECONDS).close()
            except urllib.error.HTTPError as refused:
                refused.close()
                return True
            except OSError:
                if time.monotonic() >= deadline:
                    self.end()
                    raise AssertionError(f"{self.endpoint} does not answer") from None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LOOK_SECONDS)
            else:
                return True
        return False

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
