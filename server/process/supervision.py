"""The duties of a process that a supervisor (`magnetar cluster`) has started: the process ends when its supervisor
ends, tells the supervisor its ZooKeeper session, and gives a sign of life every few seconds.

With the session's id and password the supervisor ends the session of a process that has died, so that the ephemeral
records of the session (ownership of bundles, registrations) go away at once instead of after the session's timeout. A
session file holds the id and the password. The process keeps a lock on this file, so that nobody ends the session of a
process that is alive.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.process.data_folder_lock import AlreadyInUseError

if TYPE_CHECKING:
    from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore

SUPERVISOR_VARIABLE = "MAGNETAR_SUPERVISOR"
"""The environment variable that holds the supervisor's pid."""
SESSION_FILE_VARIABLE = "MAGNETAR_SESSION_FILE"
"""The environment variable that holds the path of the session file."""

BEAT = b"\0"
"""The line on the standard output that is the sign of life."""
BEAT_SECONDS = 2.0

_PR_SET_PDEATHSIG = 1
"""The option of the system call prctl that asks for a signal when the parent process ends."""
_LINE_BYTES_MAX = 4_096


class SessionNote(NamedTuple):
    """A ZooKeeper session, as its process writes it into the session file."""

    session_id: int
    password: bytes


def end_with_supervisor() -> None:
    """Makes this process end at once when its supervisor ends for any reason. Has no effect in a process that no
    supervisor started.

    On Linux the kernel sends SIGKILL, which ends even a process that hangs; elsewhere a thread waits for the end of the
    standard input, which is a pipe from the supervisor.
    """
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    if supervisor is None:
        return
    if sys.platform == "linux":
        import ctypes  # A process without a supervisor does not need this module.

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(supervisor):  # The supervisor ended before this process asked the kernel for the signal.
            _end_now()
    else:
        end_with_input()


def end_with_input() -> None:
    """Makes this process end at once, without an orderly stop, when its standard input ends. That is a pipe from the
    parent process, which the kernel closes when the parent ends for any reason. Unlike the signal of the kernel, the
    pipe does not end with the parent's thread that started this process."""
    threading.Thread(target=await_end_of_input, name="parent", daemon=True).start()


def await_end_of_input(descriptor: int = 0) -> None:
    """Reads until the pipe's other side is closed, then ends the process."""
    while os.read(descriptor, 1):
        continue
    _end_now()


def _end_now() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def beat_for_supervisor(loop: asyncio.AbstractEventLoop, descriptor: int = 1) -> None:
    """Writes BEAT to the standard output every BEAT_SECONDS, as long as the event loop turns. Has no effect in a
    process that no supervisor started. A process that is stopped, or whose loop hangs, does not beat; the supervisor
    kills it after a long silence. While the supervisor does not read, beats are left out, so that nobody waits."""
    if SUPERVISOR_VARIABLE not in os.environ:
        return
    try:
        if select.select((), (descriptor,), (), 0)[1]:
            os.write(descriptor, BEAT + b"\n")
    except OSError:
        return  # Nobody reads any more: the supervisor is ending.
    loop.call_later(BEAT_SECONDS, beat_for_supervisor, loop, descriptor)


def tell_supervisor(store: "ZooKeeperStore") -> None:
    """Writes the ZooKeeper session of `store` into the session file, now and whenever the store gets another session.
    Has no effect in a process that no supervisor started. A process calls this function once, before it makes an
    ephemeral record.

    Raises AlreadyInUseError when another process holds the file, OSError when the file cannot be written.
    """
    path = os.environ.get(SESSION_FILE_VARIABLE)
    if path is None:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _locked(descriptor):
        os.close(descriptor)
        raise AlreadyInUseError(f"another process keeps its session in {path}")

    def write() -> None:
        session_id, password = store.session
        if session_id:
            os.pwrite(descriptor, f"{session_id:x} {password.hex()}\n".encode(), 0)

    store.on_session(lambda _: write())
    write()


def session_of_the_dead(path: Path) -> SessionNote | None:
    """Returns the session that a process left in its session file, or None when the file holds no session. Raises
    AlreadyInUseError when the process is alive."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if not _locked(descriptor):
            raise AlreadyInUseError(f"the process that keeps its session in {path} is still there")
        line = os.pread(descriptor, _LINE_BYTES_MAX, 0).partition(b"\n")[0]
    finally:
        os.close(descriptor)
    try:
        session, password = line.decode().split()
        return SessionNote(int(session, 16), bytes.fromhex(password))
    except ValueError:
        return None


def forget_session(path: Path) -> None:
    """Makes a session file hold no session. The file and its room on the disk stay, so that the next process can write
    its session down while the disk is full. If this fails, the session is ended once more later, which does no harm."""
    with contextlib.suppress(OSError), open(path, "r+b", buffering=0) as file:
        file.write(b"\n")


def _locked(descriptor: int) -> bool:
    """Takes the lock on the file, which lasts until the descriptor is closed, and returns whether it was free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
