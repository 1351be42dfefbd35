"""The scenario of many connections, each with a consumer of a topic of its own: what one takes in memory, and how soon
all are subscribed again when the server was killed."""

import json
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.loads import NAMESPACE, new_server
from bench.many_connections import Attached
from bench.process_stats import cpu_seconds, memory_mb
from bench.sizes import Figures, Sizes
from compat_tests.harness import Server
from compat_tests.products import Product

DESCRIPTORS_BESIDE = 500
"""How many descriptors a server needs for its files, beside its connections."""


def connections(product: Product, sizes: Sizes) -> Figures:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= sizes.connections + DESCRIPTORS_BESIDE, f"ulimit -n is {hard}: too few for these connections"
    figures: Figures = {}
    with new_server(product) as server:
        server.start()
        with urllib.request.urlopen(f"{server.web_url}/metrics", timeout=30) as answer:
            answer.read()
        idle_mb, idle_cpu, began = memory_mb(server.pid), cpu_seconds(server.pid), time.monotonic()
        with crowd(server, sizes.connections) as lines:
            opened = next(lines)
            figures["connections_seconds"] = opened.at - began
            figures["connections_cpu"] = (cpu_seconds(server.pid) - idle_cpu) / sizes.connections * 1000
            figures["connection_memory"] = (memory_mb(server.pid) - idle_mb) * 1000 / sizes.connections
            server.kill()
            began = server.spawn()
            again = next(lines)
            figures["reconnect_seconds"] = again.at - began
            figures["reconnect_cpu"] = cpu_seconds(server.pid)
            figures["reconnect_refused"] = opened.refused + again.refused
            figures["reconnect_lost"] = opened.lost + again.lost
    return figures


@contextmanager
def crowd(server: Server, count: int) -> Iterator[Iterator[Attached]]:
    """Runs the driver, and yields its lines."""
    command = [sys.executable, "-m", "bench.many_connections", "--port", str(server.broker_port)]
    command += ["--topic", f"{NAMESPACE}/crowd", "--connections", str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        try:
            yield (Attached(**json.loads(line)) for line in driver.stdout)
        finally:
            driver.stdin.close()
