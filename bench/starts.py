"""The scenario of starts: from the start command to the first receipt, on new data and after a SIGKILL, and how long
the first REST call takes."""

import statistics
import time
import urllib.request
from collections.abc import Callable

from bench.loads import NAMESPACE, new_server, publish
from bench.process_stats import cpu_seconds
from bench.sizes import Figures, Sizes
from compat_tests import wire
from compat_tests.harness import Server, free_port
from compat_tests.products import Product

START_TIMEOUT_SECONDS = 120
CONNECT_POLL_SECONDS = 0.002
SETTLED_SECONDS = 2.0
"""How long after its first receipt a server gets its first REST call, in the row of a settled server."""
REST_TIMEOUT_SECONDS = 60


def starts(product: Product, sizes: Sizes) -> Figures:
    """Returns the medians of `sizes.starts` starts of each kind."""
    found: dict[str, list[float]] = {}
    for number in range(sizes.starts):
        with new_server(product) as server:
            note_first_receipt(server, (free_port(), free_port()), "first_receipt", found)
            is_settled = bool(number % 2)
            if is_settled:
                time.sleep(SETTLED_SECONDS)
            key = "first_rest_call_settled" if is_settled else "first_rest_call"
            found.setdefault(key, []).append(rest_call_ms(server))
    with new_server(product) as server:
        server.start()
        publish(server, "stored", sizes.stored)
        ports = (server.broker_port, server.address.web_port)
        for _ in range(sizes.starts):
            server.kill()
            note_first_receipt(server, ports, "first_receipt_after_kill", found)
    return {key: statistics.median(each) for key, each in found.items()}


def note_first_receipt(server: Server, ports: tuple[int, int], key: str, found: dict[str, list[float]]) -> None:
    """Starts the server and adds to `found` how long it takes to its first receipt, and how much CPU time."""
    found.setdefault(key, []).append(seconds_until(server, ports, get_receipt))
    found.setdefault(f"{key}_cpu", []).append(cpu_seconds(server.pid))


def get_receipt(client: wire.WireClient) -> None:
    client.open_producer(f"{NAMESPACE}/stored")
    client.socket.sendall(wire.send_frame(1, 0, b"first"))
    client.expect(wire.SEND_RECEIPT)


def seconds_until(server: Server, ports: tuple[int, int], use: Callable[[wire.WireClient], None]) -> float:
    """Starts the server, and returns the seconds from the start command until `use` has had what it wants of a
    connection. A failed attempt is repeated at once."""
    began = server.spawn(ports)
    while True:
        try:
            with wire.WireClient(ports[0]) as client:
                use(client)
                return time.monotonic() - began
        except (OSError, wire.ClosedError, AssertionError):
            if time.monotonic() - began > START_TIMEOUT_SECONDS:
                raise
            time.sleep(CONNECT_POLL_SECONDS)


def rest_call_ms(server: Server) -> float:
    """Returns the milliseconds that a REST call takes, with its connection."""
    began = time.monotonic()
    with urllib.request.urlopen(f"{server.web_url}/admin/v2/clusters", timeout=REST_TIMEOUT_SECONDS) as answer:
        answer.read()
    return (time.monotonic() - began) * 1000
