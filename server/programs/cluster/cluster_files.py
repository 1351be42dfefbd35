"""The supervisor's data folder: its room, and its two files, which are the layout of the cluster and the list of
running processes.

`cluster.json` has the layout, so that later starts use the same ports. `processes.json` has the addresses and the pid
of each process while the cluster runs, for programs and people.
"""

import json
import os
import random
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from magnetar.server.programs.cluster.cluster_rules import LOOPBACK, ClusterLayout, ClusterLayoutError

LAYOUT_FILE = "cluster.json"
PROCESSES_FILE = "processes.json"
FIRST_PORT, END_OF_PORTS = 10_000, 65_536
PORT_TRIES_MAX = 1_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
DEFAULT_EPHEMERAL_FIRST = 32_768
START_BYTES = 4 << 20
"""How much room on the disk the start of a process needs at most; each process keeps as much in its reserve."""


def read_layout(data_dir: Path) -> ClusterLayout | None:
    """Returns the layout of the folder's cluster, or None when the folder has no cluster. Raises ClusterLayoutError
    when the file cannot be parsed, and OSError when it cannot be read."""
    path = data_dir / LAYOUT_FILE
    try:
        return ClusterLayout.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterLayoutError(f"{path} cannot be understood ({error!r}): put it back from a copy") from error


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces the file as a whole, so that no reader sees half of it. Raises OSError when the file cannot be
    written."""
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def free_ports(rng: random.Random) -> Iterator[int]:
    """Yields ports that no process uses at the moment, each of them once.

    The ports are below the range from which the system takes the ports of outgoing connections, so no connection can
    take the port of a child while the child is down. If fewer than PORT_TRIES_MAX ports are below that range, ports of
    the range are taken as well. Raises OSError when no port is found.
    """
    last = ephemeral_first()
    if last - FIRST_PORT < PORT_TRIES_MAX:
        last = END_OF_PORTS
    given: set[int] = set()
    while True:
        for _ in range(PORT_TRIES_MAX):
            port = rng.randrange(FIRST_PORT, last)
            if port not in given and _is_free(port):
                given.add(port)
                break
        else:
            raise OSError("no free port was found")
        yield port


def ephemeral_first() -> int:
    """Returns the first port that the system uses for outgoing connections."""
    try:
        return int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return DEFAULT_EPHEMERAL_FIRST


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def with_lack_of_room(text: str, folder: Path) -> str:
    """Returns the sentence about a failed start. If the disk of the cluster's folder is full, the sentence also says
    so, because the children's reasons look like those of a lost server: a session that finds no room waits."""
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError:
        return text
    if free_bytes >= START_BYTES:
        return text
    needed = f"a start needs up to {START_BYTES >> 20} MB, make room"
    return f"{text}: the disk of {folder} is full, {free_bytes >> 10} KB are free, {needed}"
