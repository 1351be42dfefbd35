"""One server per data folder and per port: who holds what, said in one sentence before anything is touched."""

import errno
import fcntl
import os
import socket
from pathlib import Path

LOCK_FILE = "magnetar.lock"


class AlreadyInUseError(Exception):
    """A data folder or port belongs to another process; the text is the sentence for the user."""


class DataFolderLock:
    """An advisory lock on `DIR/magnetar.lock`, which holds the owner's pid. The kernel frees it with the process."""

    def __init__(self, folder: Path) -> None:
        """Creates the folder where it is missing. Raises AlreadyInUseError, OSError (cannot create or write)."""
        self._path = folder / LOCK_FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise NotADirectoryError(f"data folder {folder}: a file of that name is there") from None
        except OSError as error:
            raise OSError(f"data folder {folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise AlreadyInUseError(f"data folder {folder} is in use by pid {pid}") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def reserve_port(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: clients are refused until the server is ready.

    `port` 0 picks a free one. Raises AlreadyInUseError, or OSError for an address that this machine does not have.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise OSError(f"cannot listen on {host}: {error.strerror}") from error
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise port_in_use(port) from None
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return sock


def port_in_use(port: int) -> AlreadyInUseError:
    """The error that names the port and, where this system tells, the process that listens on it."""
    pid = _listener_pid(port)
    return AlreadyInUseError(f"port {port} is in use by {f'pid {pid}' if pid else 'another process'}")


def _listener_pid(port: int) -> int | None:
    """Linux only: the listening socket's inode from /proc/net/tcp*, then the process that has it open."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "0A":
                inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(fd) in inodes for fd in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    return None
