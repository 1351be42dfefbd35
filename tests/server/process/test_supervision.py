"""A supervised process ends with its supervisor, and keeps its ZooKeeper session where the supervisor finds it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar.server.process import supervision
from magnetar.server.process.data_folder_lock import AlreadyInUseError
from magnetar.server.process.supervision import (
    BEAT,
    SESSION_FILE_VARIABLE,
    SUPERVISOR_VARIABLE,
    SessionNote,
    beat_for_supervisor,
    end_with_supervisor,
    forget_session,
    session_of_the_dead,
    tell_supervisor,
)

CHILD = """
import os, time
from magnetar.server.process.supervision import end_with_supervisor
end_with_supervisor()
os.write(1, b"%d\\n" % os.getpid())
time.sleep(600)
"""
SUPERVISOR = f"""
import os, subprocess, sys, time
environment = {{**os.environ, "{SUPERVISOR_VARIABLE}": str(os.getpid())}}
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=environment)
time.sleep(600)
"""


class FakeStore:
    """A store whose session the test sets."""

    def __init__(self) -> None:
        self.session = (0x1234, b"password-16bytes")
        self.callbacks: list[Callable[[object], None]] = []

    def on_session(self, callback: Callable[[object], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: None


def tell(store: FakeStore) -> None:
    tell_supervisor(store)  # type: ignore[arg-type]


def test_a_process_without_a_supervisor_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SESSION_FILE_VARIABLE, raising=False)
    monkeypatch.delenv(SUPERVISOR_VARIABLE, raising=False)
    store = FakeStore()
    tell(store)
    end_with_supervisor()
    assert not store.callbacks


@pytest.mark.process
def test_the_session_is_told_only_when_the_process_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session"
    assert session_of_the_dead(path) is None
    monkeypatch.setenv(SESSION_FILE_VARIABLE, str(path))
    child = os.fork()
    if child == 0:  # The child keeps the file until it is killed.
        tell(FakeStore())
        signal.pause()
    try:
        while not path.exists() or not path.read_text():
            os.sched_yield()
        with pytest.raises(AlreadyInUseError, match="still there"):
            session_of_the_dead(path)
        assert path.stat().st_mode & 0o077 == 0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert session_of_the_dead(path) == SessionNote(0x1234, b"password-16bytes")


def test_a_new_session_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session"
    monkeypatch.setenv(SESSION_FILE_VARIABLE, str(path))
    store = FakeStore()
    tell(store)
    store.session = (0, bytes(16))
    store.callbacks[0]("expired")
    assert path.read_text() == f"1234 {b'password-16bytes'.hex()}\n"
    store.session = (-0x7F, b"another-password")
    store.callbacks[0]("new")
    assert path.read_text().splitlines()[0] == f"-7f {b'another-password'.hex()}"


def test_a_session_is_forgotten_without_giving_up_the_room_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "session"
    forget_session(path)
    assert not path.exists()
    monkeypatch.setenv(SESSION_FILE_VARIABLE, str(path))
    tell(FakeStore())
    before = path.stat()
    forget_session(path)
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)
    copy = tmp_path / "copy"  # This process still keeps its lock on the file.
    copy.write_bytes(path.read_bytes())
    assert session_of_the_dead(copy) is None


@pytest.mark.parametrize("content", ["", "1234", "x y\n", "12 zz\n", "\udcff\n"])
def test_a_file_that_says_nothing_names_no_session(content: str, tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.write_text(content, errors="surrogateescape")
    assert session_of_the_dead(path) is None


@pytest.mark.process
def test_the_child_of_a_killed_supervisor_ends_even_when_it_is_stopped() -> None:
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE)
    assert supervisor.stdout is not None
    child = int(supervisor.stdout.readline())
    os.kill(child, signal.SIGSTOP)
    supervisor.kill()
    assert supervisor.stdout.read() == b"", "the pipe closes when the child is gone"
    supervisor.wait()


@pytest.mark.process
def test_without_the_kernels_help_the_end_of_the_input_ends_the_process() -> None:
    code = "from magnetar.server.process.supervision import await_end_of_input as wait\nwait()\nprint('lives')"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = child.communicate(b"x")
    assert (out, child.returncode) == (b"", -signal.SIGKILL)


async def test_a_supervised_process_beats_as_long_as_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    beat_for_supervisor(loop, writing)
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    monkeypatch.setenv(SUPERVISOR_VARIABLE, "1")
    monkeypatch.setattr(supervision, "BEAT_SECONDS", 0.01)
    beat_for_supervisor(loop, writing)
    beats = b""
    async with asyncio.timeout(60):
        while beats.count(BEAT + b"\n") < 3:
            await asyncio.sleep(0)
            with contextlib.suppress(BlockingIOError):
                beats += os.read(reading, 100)
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    beat_for_supervisor(loop, writing)  # The pipe is full: a beat that waited would stop the whole loop.
    os.close(reading)
    os.close(writing)
