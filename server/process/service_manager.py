"""Tells systemd, or another service manager that speaks its protocol, when the process is ready and when it stops.

A unit with Type=notify names a datagram socket in the environment, and the process sends it lines such as READY=1.
Source: sd_notify(3).
"""

import logging
import os
import socket

from magnetar.server.process.supervision import SUPERVISOR_VARIABLE

log = logging.getLogger(__name__)

SOCKET_VARIABLE = "NOTIFY_SOCKET"
"""The environment variable that holds the socket's path. A path that begins with @ is a name in Linux's abstract
namespace."""

READY = "READY=1"
STOPPING = "STOPPING=1"

SECONDS_MAX = 1.0
"""How long the process waits for a service manager whose socket is full. Waiting is right here, because a service
manager that misses READY=1 stops the process."""


def notify_service_manager(state: str) -> None:
    """Sends a state to the service manager. Has no effect when no service manager asked for it, or in a process that a
    supervisor of ours started, because then the supervisor speaks for all of its processes. A service manager that
    cannot be reached is told in the log, and the process goes on."""
    path = os.environ.get(SOCKET_VARIABLE)
    if not path or SUPERVISOR_VARIABLE in os.environ:
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(SECONDS_MAX)
            sock.sendto(state.encode(), address)
    except OSError as error:
        log.warning("the service manager at %s was not told %s: %s", path, state, error.strerror or error)
