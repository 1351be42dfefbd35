"""TAB in zsh and fish, with the scripts that `magnetar completion` prints. Part of `make clients`.

The shells are Debian's packages `zsh` and `fish`. zsh completes only in a terminal, so it gets one; fish tells what it
would offer. `tests/server/tools/admin/test_completion_scripts.py` has the cases of bash.
"""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
import uuid
from pathlib import Path
from urllib.parse import quote

import pytest

from compat_tests.harness import Server
from compat_tests.products import interpreter
from compat_tests.python.rest import Admin
from compat_tests.unavailable import unavailable

DEADLINE_SECONDS = 60
READY = "ready> "

CASES = [
    ("magnetar stand", "magnetar standalone"),
    ("magnetar check conn", "magnetar check connection"),
    ("magnetar bookie --log-l", "magnetar bookie --log-level"),
    ("magnetar admin name", "magnetar admin namespaces"),
    ("magnetar admin topics create-partit", "magnetar admin topics create-partitioned-topic"),
    ("magnetar admin topics create-partitioned-topic t --part", "--partitions"),
    ("magnetar admin topics stats TYPED", "TOPIC"),
    ("magnetar admin topics stats persistent://public/default/TYPED", "persistent://public/default/TOPIC"),
    ("pulsar-admin topics stats TYPED", "TOPIC"),
    ("magnetar file-of-", "file-of-mine"),
]
"""The line that is typed before TAB, and the end of what stands there, or is offered, afterwards."""


@pytest.fixture
def topic(server: Server) -> str:
    """The name of a topic. It ends in what a shell would run if it were not in quotes."""
    name = f"{uuid.uuid4().hex}-$(x)"
    Admin(server).put(f"persistent/public/default/{quote(name, safe='')}")
    return name


@pytest.fixture
def environment(tmp_path: Path, server: Server) -> dict[str, str]:
    """The environment of a shell in a home with one file."""
    (tmp_path / "file-of-mine").touch()
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "MAGNETAR_ADMIN_URL": server.web_url,
    }


def program(name: str) -> str:
    """Returns the path of a shell."""
    return shutil.which(name) or unavailable(f"needs {name}")


def script(shell: str) -> str:
    command = [*interpreter(), "-m", "magnetar", "completion", shell]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Terminal:
    """A program in a terminal of its own, in which a test types."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(environment["HOME"])
            termios.tcsetwinsize(0, (50, 500))  # a longer line would be broken
            os.execve(command[0], command, environment)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        """Returns when the program has written the text; what came before and with it is forgotten."""
        deadline_s = time.monotonic() + DEADLINE_SECONDS
        while text not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, f"{text!r} did not come: {self._seen!r}"
            self._seen += os.read(self._terminal, 65_536).decode(errors="replace")
        self._seen = self._seen.partition(text)[2]

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@pytest.mark.parametrize(("line", "end"), CASES)
def test_zsh_completes(line: str, end: str, topic: str, environment: dict[str, str]) -> None:
    home = Path(environment["HOME"])
    (home / ".zshrc").write_text(f"autoload -U compinit; compinit -u\n{script('zsh')}\nPS1='{READY}'\n")
    terminal = Terminal([program("zsh"), "-i"], environment)
    try:
        terminal.wait_for(READY)
        terminal.type(line.replace("TYPED", topic[:-8]))
        terminal.wait_for(line.replace("TYPED", topic[:-8]))
        terminal.type("\t")
        quoted = topic.replace("$(x)", r"\$\(x\)")
        whole = line.rpartition(" ")[2].replace("TYPED", topic[:-8])
        terminal.wait_for(end.replace("TOPIC", quoted).rpartition(" ")[2].removeprefix(whole))
    finally:
        terminal.close()


@pytest.mark.parametrize(("line", "end"), CASES)
def test_fish_completes(line: str, end: str, topic: str, environment: dict[str, str]) -> None:
    typed = line.replace("TYPED", topic[:-8])
    told = subprocess.run(
        [program("fish"), "--command", f"{script('fish')}\ncomplete -C '{typed}'"],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    assert end.replace("TOPIC", topic).rpartition(" ")[2] in told.stdout.splitlines(), told
