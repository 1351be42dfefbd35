"""Reserves a port before a server does anything else at its start. If another process has the port, the start fails and
tells the user so in one sentence."""

import errno
import os
import socket
from pathlib import Path

from magnetar.server.process.data_folder_lock import AlreadyInUseError


def reserve_port(host: str, port: int) -> socket.socket:
    """Returns a bound socket that does not listen yet: clients are refused until the server is ready. A `port` of 0
    picks a free port. Raises AlreadyInUseError when the port is taken, OSError for an address that this machine does
    not have."""
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
    """Returns the error that names the port and, if the system tells, the process that listens on it."""
    pid = _listener_pid(port)
    user = f"pid {pid}" if pid else "another process"
    return AlreadyInUseError(f"port {port} is in use by {user}: stop that process, or choose another port")


def _listener_pid(port: int) -> int | None:
    """Finds the listening socket's inode in /proc/net/tcp*, then the process that has it open. Returns None when there
    is no such process, when it belongs to another user, and on systems other than Linux."""
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
