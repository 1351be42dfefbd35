"""The scenario of open transactions: the memory that many of them take, and how long a coordinator reads their log
after a SIGKILL."""

import json
import socket
import urllib.request
from collections.abc import Iterator

from bench.loads import NAMESPACE, new_server
from bench.process_stats import cpu_seconds, memory_mb
from bench.sizes import Figures, Sizes
from bench.starts import seconds_until
from compat_tests import wire
from compat_tests.harness import Server
from compat_tests.products import Product

COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
STATS = "/admin/v3/transactions/coordinatorStats?coordinatorId=0"
NEW_TXN, ADD_PARTITION_TO_TXN, TC_CLIENT_CONNECT_REQUEST = 50, 52, 62
LIFETIME_MS = 3_600_000
WINDOW = 1_000
"""How many commands may be unanswered."""
READ_BYTES = 1 << 20


def open_transactions(product: Product, sizes: Sizes) -> Figures:
    """Opens transactions with a partition each, and measures the memory after a restart, when what was just written
    fills no caches any more. Then adds partitions to them until the log has its size, kills the server, and starts it
    again."""
    count, more = sizes.open_transactions, sizes.transaction_records // sizes.open_transactions - 2
    with new_server(product, {"transactionCoordinatorEnabled": "true"}) as server:
        server.start()
        with wire.WireClient(server.broker_port) as client:
            connect(client)
            before = memory_mb(server.pid)
            ask(client.socket, (wire.frame(NEW_TXN, [(1, least), (2, LIFETIME_MS)]) for least in range(count)), count)
            ask(client.socket, additions(count, 0), count)
        server.restart()
        with wire.WireClient(server.broker_port) as client:
            connect(client)
            memory = memory_mb(server.pid) - before
            for number in range(1, 1 + more):
                ask(client.socket, additions(count, number), count)
        assert stats_of(server)["ongoingTxnSize"] == count
        server.kill()
        seconds_until(server, (server.broker_port, server.address.web_port), connect)
        cpu, stats = cpu_seconds(server.pid), stats_of(server)
        assert stats["ongoingTxnSize"] == count
    return {
        "open_txn_memory": memory,
        "txn_log_seconds": (stats["recoverEndTime"] - stats["recoverStartTime"]) / 1000,
        "txn_log_cpu": cpu,
    }


def connect(client: wire.WireClient) -> None:
    """Returns when the coordinator can be used."""
    client.go_to_owner(COORDINATOR)
    client.send(TC_CLIENT_CONNECT_REQUEST, [(1, 1), (2, 0)])
    answer = client.expect(TC_CLIENT_CONNECT_REQUEST + 1)
    assert 2 not in answer, answer


def additions(count: int, number: int) -> Iterator[bytes]:
    """Yields the commands that add a partition to each transaction."""
    topic = f"{NAMESPACE}/orders-partition-{number}"
    return (wire.frame(ADD_PARTITION_TO_TXN, [(1, least), (2, least), (4, topic)]) for least in range(count))


def ask(sock: socket.socket, commands: Iterator[bytes], count: int) -> None:
    """Sends so many commands, and returns when each is answered."""
    buffer = bytearray()
    asked = answered = 0
    while answered < count:
        wanted = min(count, answered + WINDOW) - asked
        if wanted > WINDOW // 2 or asked + wanted == count:
            sock.sendall(b"".join(next(commands) for _ in range(wanted)))
            asked += wanted
        read = sock.recv(READ_BYTES)
        assert read, "the server closed the connection"
        buffer += read
        at = 0
        while len(buffer) >= at + 4 and len(buffer) >= (end := at + 4 + int.from_bytes(buffer[at : at + 4], "big")):
            at, answered = end, answered + 1
        del buffer[:at]


def stats_of(server: Server) -> dict[str, int]:
    with urllib.request.urlopen(server.web_url + STATS, timeout=60) as answer:
        stats: dict[str, int] = json.load(answer)
        return stats
