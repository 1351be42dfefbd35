"""The four-letter words. A client that sends such a word instead of a connect request gets a text, after which the
server closes the connection.

The texts are the same as those of Java's commands (org.apache.zookeeper.server.command), because tools parse them.
"""

import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from magnetar import __version__

if TYPE_CHECKING:
    from magnetar.metadata.zookeeper_server.connection import Connection
    from magnetar.metadata.zookeeper_server.zookeeper_server import ZooKeeperServer

PROTOCOL_VERSION = "3.9.3"
"""The version of ZooKeeper whose protocol the server speaks. Tools and clients read it from `srvr`."""
FULL_VERSION = f"{PROTOCOL_VERSION}-magnetar-{__version__}, built on 2026-11-22 00:00 UTC"
PATHS_SHOWN_MAX = 10_000
"""How many watched or ephemeral paths a text lists. Further paths are left out, because a text is made in one turn of
the loop."""


def text_of(word: str, server: "ZooKeeperServer") -> str:
    """Returns the answer to a known word."""
    if word not in server.settings.command_whitelist:
        return f"{word} is not executed because it is not in the whitelist.\n"
    return "".join(WORDS[word](server))


def _ruok(server: "ZooKeeperServer") -> Iterator[str]:
    yield "imok"


def _isro(server: "ZooKeeperServer") -> Iterator[str]:
    yield "rw"


def _srvr(server: "ZooKeeperServer") -> Iterator[str]:
    yield f"Zookeeper version: {FULL_VERSION}\n"
    yield from _statistics(server)


def _stat(server: "ZooKeeperServer") -> Iterator[str]:
    yield f"Zookeeper version: {FULL_VERSION}\nClients:\n"
    for connection in server.connections:
        yield f" {_brief(connection)})\n"
    yield "\n"
    yield from _statistics(server)


def _statistics(server: "ZooKeeperServer") -> Iterator[str]:
    processor = server.processor
    latency = server.processor.latency
    yield f"Latency min/avg/max: {latency.least_ms}/{latency.average_ms:.4f}/{latency.most_ms}\n"
    yield f"Received: {processor.received}\nSent: {processor.sent}\nConnections: {len(server.connections)}\n"
    yield f"Outstanding: {processor.waiting}\nZxid: 0x{processor.zxid:x}\nMode: standalone\n"
    yield f"Node count: {processor.tree.size}\n"


def _mntr(server: "ZooKeeperServer") -> Iterator[str]:
    processor, latency = server.processor, server.processor.latency
    values = {
        "version": FULL_VERSION,
        "server_state": "standalone",
        "peer_state": "leading - broadcast",
        "ephemerals_count": sum(map(len, processor.tree.ephemerals.values())),
        "avg_latency": f"{latency.average_ms:.4f}",
        "min_latency": latency.least_ms,
        "max_latency": latency.most_ms,
        "num_alive_connections": len(server.connections),
        "outstanding_requests": processor.waiting,
        "packets_received": processor.received,
        "packets_sent": processor.sent,
        "znode_count": processor.tree.size,
        "watch_count": processor.watches.counts()[2],
        "global_sessions": len(processor.sessions),
        "approximate_data_size": server.journal.size(),
        "open_file_descriptor_count": _open_descriptors(),
        "max_file_descriptor_count": os.sysconf("SC_OPEN_MAX"),
        "uptime": server.uptime_ms(),
        "commit_count": server.journal.commits,
    }
    for key, value in values.items():
        yield f"zk_{key}\t{value}\n"


def _conf(server: "ZooKeeperServer") -> Iterator[str]:
    settings, size = server.settings, server.journal.size()
    yield f"clientPort={server.port}\nsecureClientPort=-1\n"
    yield f"dataDir={server.journal.folder}\ndataDirSize={size}\n"
    yield f"dataLogDir={server.journal.folder}\ndataLogSize={size}\n"
    yield f"tickTime={settings.tick_ms}\nmaxClientCnxns={settings.connections_per_address_max}\n"
    yield f"minSessionTimeout={settings.session_timeout_min_ms}\n"
    yield f"maxSessionTimeout={settings.session_timeout_max_ms}\nclientPortListenBacklog=-1\nserverId=0\n"


def _cons(server: "ZooKeeperServer") -> Iterator[str]:
    for connection in server.connections:
        session = ""
        if connection.session_id:
            session = f",sid=0x{connection.session_id:x},lop=NA,est={connection.established_at * 1000:.0f}"
            session += f",to={connection.timeout_ms},lcxid=0x{connection.last_xid & 0xFFFFFFFF:x}"
            session += f",lzxid=0x{server.processor.zxid:x}"
        yield f" {_brief(connection)}{session})\n"
    yield "\n"


def _dump(server: "ZooKeeperServer") -> Iterator[str]:
    sessions, ephemerals = server.processor.sessions, server.processor.tree.ephemerals
    deadlines = sessions.deadlines()
    yield f"SessionTracker dump:\nSession Sets ({len(deadlines)})/({len(sessions)}):\n"
    for deadline, ids in deadlines:
        yield f"{len(ids)} expire at {deadline}ms:\n"
        for session_id in ids:
            yield f"\t0x{session_id:x}\n"
    yield f"ephemeral nodes dump:\nSessions with Ephemerals ({len(ephemerals)}):\n"
    shown = 0
    for session_id, paths in ephemerals.items():
        yield f"0x{session_id:x}:\n"
        for path in sorted(paths)[: PATHS_SHOWN_MAX - shown]:
            yield f"\t{path.decode(errors='replace')}\n"
            shown += 1
    yield f"Connections dump:\nConnections Sets (1)/({len(server.connections)}):\n"


def _wchs(server: "ZooKeeperServer") -> Iterator[str]:
    connections, paths, watches = server.processor.watches.counts()
    yield f"{connections} connections watching {paths} paths\nTotal watches:{watches}\n"


def _wchc(server: "ZooKeeperServer") -> Iterator[str]:
    shown = 0
    for table in (server.processor.watches.data, server.processor.watches.children):
        for watcher, paths in table.paths_of():
            yield f"0x{watcher.session_id:x}\n"
            for path in sorted(paths)[: PATHS_SHOWN_MAX - shown]:
                yield f"\t{path.decode(errors='replace')}\n"
                shown += 1
    yield "\n"


def _wchp(server: "ZooKeeperServer") -> Iterator[str]:
    shown = 0
    for table in (server.processor.watches.data, server.processor.watches.children):
        for path, watchers in table.watchers_of():
            if shown == PATHS_SHOWN_MAX:
                return
            shown += 1
            yield f"{path.decode(errors='replace')}\n"
            for watcher in watchers:
                yield f"\t0x{watcher.session_id:x}\n"
    yield "\n"


def _envi(server: "ZooKeeperServer") -> Iterator[str]:
    values = {
        "zookeeper.version": FULL_VERSION,
        "host.name": socket.gethostname(),
        "python.version": platform.python_version(),
        "python.executable": sys.executable,
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.dir": os.getcwd(),
    }
    yield "Environment:\n"
    for key, value in values.items():
        yield f"{key}={value}\n"


def _dirs(server: "ZooKeeperServer") -> Iterator[str]:
    size = server.journal.size()
    yield f"datadir_size: {size}\nlogdir_size: {size}\n"


def _srst(server: "ZooKeeperServer") -> Iterator[str]:
    server.processor.reset_statistics()
    yield "Server stats reset.\n"


def _crst(server: "ZooKeeperServer") -> Iterator[str]:
    for connection in server.connections:
        connection.received = connection.sent = 0
    yield "Connection stats reset.\n"


WORDS: dict[str, Callable[["ZooKeeperServer"], Iterator[str]]] = {
    "ruok": _ruok,
    "isro": _isro,
    "srvr": _srvr,
    "stat": _stat,
    "mntr": _mntr,
    "conf": _conf,
    "cons": _cons,
    "dump": _dump,
    "wchs": _wchs,
    "wchc": _wchc,
    "wchp": _wchp,
    "envi": _envi,
    "dirs": _dirs,
    "srst": _srst,
    "crst": _crst,
}
WORDS_AS_BYTES = frozenset(word.encode() for word in WORDS)


def _brief(connection: "Connection") -> str:
    address = f"/{connection.peer}[1](queued={connection.waiting}"
    return f"{address},recved={connection.received},sent={connection.sent}"


def _open_descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return -1
